package github

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// These are the bounds of the cache: bytes in total, bytes of one answer, and number of answers.
const (
	maxKept     = 16 << 20
	maxKeptOne  = 1 << 20
	maxKeptOnes = 2000
)

// cache keeps answers with their ETags. A repeated request carries the tag, and GitHub does not count an answer of
// "not modified" against the hourly limit.
type cache struct {
	mu    sync.Mutex
	kept  map[string]kept
	order []string // the oldest first
	size  int
}

type kept struct {
	header http.Header
	body   []byte
}

func newCache() *cache { return &cache{kept: map[string]kept{}} }

func key(req *http.Request) string { return req.Header.Get("Accept") + " " + req.URL.String() }

// ask makes the request conditional if its answer is cached.
func (c *cache) ask(req *http.Request) {
	if req.Method != http.MethodGet {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.kept[key(req)]; ok {
		req.Header.Set("If-None-Match", k.header.Get("Etag"))
	}
}

// answer replaces "not modified" with the cached answer, and caches a new one.
func (c *cache) answer(req *http.Request, resp *http.Response, body []byte) []byte {
	if req.Method != http.MethodGet {
		return body
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[key(req)]
	switch {
	case resp.StatusCode == http.StatusNotModified && ok:
		header := k.header.Clone()
		maps.Copy(header, limitsOf(resp.Header)) // the limits are current
		resp.StatusCode, resp.Status, resp.Header = http.StatusOK, "200 OK", header
		return k.body
	case resp.StatusCode == http.StatusOK && resp.Header.Get("Etag") != "" && len(body) <= maxKeptOne:
		c.keep(key(req), kept{resp.Header.Clone(), bytes.Clone(body)})
	}
	return body
}

func limitsOf(h http.Header) http.Header {
	of := http.Header{}
	for name, values := range h {
		if strings.HasPrefix(name, "X-Ratelimit-") {
			of[name] = values
		}
	}
	return of
}

func (c *cache) keep(key string, k kept) {
	if old, ok := c.kept[key]; ok {
		c.size -= len(old.body)
	} else {
		c.order = append(c.order, key)
	}
	c.kept[key] = k
	c.size += len(k.body)
	for c.size > maxKept || len(c.order) > maxKeptOnes {
		c.size -= len(c.kept[c.order[0]].body)
		delete(c.kept, c.order[0])
		c.order = c.order[1:]
	}
}
