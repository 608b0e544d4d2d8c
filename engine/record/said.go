package record

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/slipway-gitops/slipway/engine/site"
)

func saidKey(node string) string { return "said/" + url.PathEscape(node) }

// PutSaid records what the agent in the memory of a node's machine has said. The caller limits it.
func (s *Site) PutSaid(ctx context.Context, node string, lines []site.Said) error {
	text, err := json.Marshal(lines)
	if err != nil {
		return err
	}
	value := compress(text)
	for len(value) > maxValue && len(lines) > 1 { // so that it needs no file
		lines = lines[len(lines)/2:]
		if text, err = json.Marshal(lines); err != nil {
			return err
		}
		value = compress(text)
	}
	return s.putBytes(ctx, saidKey(node), value)
}

// Said returns the recorded lines of a node's agent, oldest first.
func (s *Site) Said(ctx context.Context, node string) (lines []site.Said, err error) {
	value, err := s.valueOf(ctx, saidKey(node))
	if err != nil || value == nil {
		return nil, err
	}
	if value, err = s.read(ctx, value); err == nil {
		err = decodeCompressed(value, &lines)
	}
	if err != nil {
		return nil, fmt.Errorf("read what the agent of %s has said: %w", node, err)
	}
	return lines, nil
}
