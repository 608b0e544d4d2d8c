package record

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestMessages(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	packed, large := string(compress([]byte(`{"n":2}`))), `"`+strings.Repeat("x", maxValue)+`"`
	must(t, b.PutMessage(ctx, "wish/1", []byte(`{"n":1}`)))
	must(t, b.PutMessage(ctx, "wish/2", []byte(packed)))
	must(t, b.PutMessage(ctx, "ä %2f", []byte(large)))
	must(t, b.PutMessage(ctx, "gone", []byte(`1`)))
	must(t, b.PutMessage(ctx, "gone", nil))
	must(t, b.PutMessage(ctx, "never", nil))
	must(t, s.Site("paris").PutMessage(ctx, "wish/1", []byte(`{}`)))
	want := map[string]string{"wish/1": `{"n":1}`, "wish/2": packed, "ä %2f": large}
	same(t, "messages", messages(t, b), want)
	s, b, _ = reopen(t, s, "berlin")
	same(t, "messages after a restart", messages(t, b), want)

	var out bytes.Buffer
	_, err := s.Export(ctx, &out)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "new")
	_, err = importOf(t, dir, &out, false)
	must(t, err)
	same(t, "messages of another time", messages(t, open(t, dir).Site("berlin")), map[string]string{})
}

func messages(t *testing.T, s *Site) map[string]string {
	t.Helper()
	all, err := s.Messages(t.Context())
	must(t, err)
	text := map[string]string{}
	for key, value := range all {
		text[key] = string(value)
	}
	return text
}
