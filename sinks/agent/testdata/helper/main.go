// Command helper is the helper with one facet for tests: "config", of files of one
// line in the root folder. What a file is asked to hold says how it misbehaves.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func main() {
	flag.String("digest", "", "")
	root := flag.String("root", "/", "")
	flag.Parse()
	none := empty{}
	p := run.Program{Host: inside.Real(*root, true), Facets: map[string]inside.Facet{
		"config": files{}, "base": none, "network": none, "packages": none, "kernel": none,
	}}
	if p.Answer(context.Background(), os.Stdin, os.Stdout) != nil {
		os.Exit(1)
	}
}

type empty struct{}

func (empty) Observe(context.Context, *inside.Host, []string) (inside.Seen, error) {
	return inside.Seen{}, nil
}

func (empty) Apply(context.Context, *inside.Host, []item.Item, []string) error { return nil }

type files struct{}

func path(h *inside.Host, key string) string { return h.Path(filepath.Base(item.ID(key))) }

func (files) Observe(_ context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	seen := inside.Seen{Have: map[string]string{}}
	for _, key := range keys {
		if content, err := os.ReadFile(path(h, key)); err == nil {
			for field, v := range (item.File{Content: content, Mode: "0644", Owner: "root", Group: "root"}).Fields() {
				seen.Have[item.Name(key, field)] = v
			}
		}
	}
	return seen, nil
}

func (f files) Apply(ctx context.Context, h *inside.Host, items []item.Item, remove []string) error {
	for _, i := range items {
		var file item.File
		if err := json.Unmarshal(i.Body, &file); err != nil {
			return err
		}
		switch text := string(file.Content); {
		case strings.HasPrefix(text, "panic"):
			panic("as asked")
		case strings.HasPrefix(text, "refuse"):
			return &wire.Error{Class: wire.Refused, Text: "this system cannot have it\x1b[2J"}
		case strings.HasPrefix(text, "fail"):
			return os.ErrPermission
		case strings.HasPrefix(text, "die"):
			h.Owned.Take("config", i.Key, nil)
			os.Exit(9)
		case strings.HasPrefix(text, "forget"):
			continue
		}
		h.Tell("writing " + i.Key)
		if err := h.Owned.Take("config", i.Key, nil); err != nil {
			return err
		}
		if err := inside.WriteFile(path(h, i.Key), file.Content, 0o644); err != nil {
			return err
		}
	}
	for _, key := range remove {
		if err := os.Remove(path(h, key)); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := h.Owned.Drop("config", key); err != nil {
			return err
		}
	}
	return nil
}
