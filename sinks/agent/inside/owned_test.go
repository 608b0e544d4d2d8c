package inside_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// What is kept has bounds, for one item and for all. Beyond them nothing is taken over, and the
// error says what was not; little is kept nevertheless.
func TestWhatWasBeforeIsKeptWithinBounds(t *testing.T) {
	before := func(bytes int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", bytes-2) + `"`) }
	// full is a list in which so much is kept.
	full := func(bytes int) *inside.Owned {
		t.Helper()
		items := map[string]inside.Entry{}
		for n := 0; bytes > 0; n++ {
			size := min(bytes, inside.MaxBefore)
			items[fmt.Sprintf("config/files./%d", n)] = inside.Entry{Before: before(size)}
			bytes -= size
		}
		text, err := json.Marshal(map[string]any{"items": items})
		at := filepath.Join(t.TempDir(), "owned.json")
		if err == nil {
			err = os.WriteFile(at, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		o, err := inside.LoadOwnedFrom(at)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := full(0)
	refused := func(key string, bytes int, want string) {
		t.Helper()
		err := o.Take("config", key, before(bytes))
		var told *wire.Error
		if !errors.As(err, &told) || told.Class != wire.Refused || !strings.HasPrefix(told.Text, key+": ") || !strings.Contains(told.Text, want) || !strings.Contains(told.Text, "It is not replaced. Move it away") {
			t.Errorf("%s with %d bytes: %v", key, bytes, err)
		}
		if _, ours := o.Entry("config", key); ours {
			t.Errorf("%s was refused, and is owned", key)
		}
	}
	take := func(key string, bytes int) {
		t.Helper()
		var was json.RawMessage
		if bytes > 0 {
			was = before(bytes)
		}
		if err := o.Take("config", key, was); err != nil {
			t.Error(err)
		}
	}
	refused("files./large", inside.MaxBefore+1, "1048577 bytes with what JSON adds, of 1048576")
	o = full(6 << 20)
	refused("files./more", 5000, "it has 5000 bytes with what JSON adds, and 6291456 of the 6291456 bytes that Slipway keeps of one machine are taken")
	take("users.ada", 4096)
	take("files./new", 0)              // nothing was there
	take("files./0", inside.MaxBefore) // it is kept already
	if err := o.Drop("config", "files./0"); err != nil {
		t.Fatal(err)
	}
	take("files./more", 5000)
	o = full(8<<20 - 4096)
	take("users.ada", 4096)
	refused("users.bob", 3, "8388608 of the 8388608 bytes")
}
