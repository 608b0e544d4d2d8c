package wire_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// What is encoded by itself comes back as it was.
func TestSeldom(t *testing.T) {
	asked := wire.Request{Op: wire.OpInstall, Apply: &wire.Apply{Facet: "config", Owned: "0a<"}, Install: &wire.Install{UUID: "u", Marker: "<m>", Apply: []wire.Apply{{Facet: "base"}}}}
	told := wire.Frame{Result: &wire.Result{Machine: &wire.Machine{}, Installed: &wire.Installed{SHA256: "s", Kernels: []string{"6.1"}}}}
	for _, v := range []any{&asked, &told} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := json.Unmarshal(text, got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(v, got) {
			t.Errorf("%s: got %+v, want %+v", text, got, v)
		}
	}
}
