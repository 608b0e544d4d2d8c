package inside_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// What is kept has bounds, for one item and for all. Beyond them nothing is taken over, and the
// error says what was not; little is kept nevertheless.
func TestWhatWasBeforeIsKeptWithinBounds(t *testing.T) {
	o, err := inside.LoadOwned(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	before := func(bytes int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", bytes-2) + `"`) }
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
		if err := o.Take("config", key, before(bytes)); err != nil {
			t.Error(err)
		}
	}
	refused("files./large", inside.MaxBefore+1, "1048577 bytes with what JSON adds, of 1048576")
	for n := range 12 {
		take(fmt.Sprintf("files./%d", n), inside.MaxBefore)
	}
	refused("files./more", 5000, "it has 5000 bytes with what JSON adds, and 12582912 of the 12582912 bytes that Slipway keeps of one machine are taken")
	take("users.ada", 4096)
	if err := o.Take("config", "files./new", nil); err != nil {
		t.Errorf("where nothing was: %v", err)
	}
	take("files./0", inside.MaxBefore) // it is kept already
	if err := o.Drop("config", "files./0"); err != nil {
		t.Fatal(err)
	}
	take("files./more", 5000)
	for n := 0; ; n++ {
		if n > 2000 {
			t.Fatal("there is no bound on items with little to keep")
		}
		if err := o.Take("config", fmt.Sprintf("users.%d", n), before(4096)); err != nil {
			break
		}
	}
	refused("users.last", 4096, "of the 16777216 bytes")
}
