package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

const (
	mostPacking  = 2       // pages that are compressed at a time, as many as a small host has cores
	worthPacking = 4 << 10 // bytes of a page
)

// packers compress pages, each with a megabyte of memory once it is used. While all are busy, pages are sent as they are.
type packers chan *gzip.Writer

func newPackers() packers {
	p := make(packers, mostPacking)
	for range mostPacking {
		p <- nil
	}
	return p
}

// pack gives what is sent of a page: compressed, where the browser takes that. A page is made for each request, so little
// time is spent on it.
func (p packers) pack(w http.ResponseWriter, r *http.Request, text []byte) []byte {
	if len(text) < worthPacking || !takesGzip(r) {
		return text
	}
	select {
	case packer := <-p:
		if packer == nil {
			packer, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // no error for a known level
		}
		defer func() { p <- packer }()
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Vary", "Accept-Encoding")
		return packed(packer, text)
	default:
		return text
	}
}

// packed is a text, compressed.
func packed(packer *gzip.Writer, text []byte) []byte {
	var b bytes.Buffer // which takes everything
	packer.Reset(&b)
	_, _ = packer.Write(text)
	_ = packer.Close()
	return b.Bytes()
}

// takesGzip says whether a browser can read what is compressed by gzip.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.Trim(quality, " q=0.") != "" || quality == ""
		}
	}
	return false
}
