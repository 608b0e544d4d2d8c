package network

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// A change of an interface that NetworkManager leaves to ifupdown is refused before anything is touched. What another
// reason leaves alone, or nmcli does not tell, is no reason.
func TestInterfacesLeftToIfupdown(t *testing.T) {
	for name, c := range map[string]struct {
		named, state string
		code         int
		refused      bool
	}{
		"left to ifupdown":         {"eth0", "10 (unmanaged)\n", 0, true},
		"managed":                  {"eth0", "100 (connected)\n", 0, false},
		"without a cable":          {"eth0", "20 (unavailable)\n", 0, false},
		"another one is named":     {"eth7", "10 (unmanaged)\n", 0, false},
		"nmcli does not answer":    {"eth0", "10 (unmanaged)\n", 8, false},
		"an interface of no files": {"lo", "10 (unmanaged)\n", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			const starts = "/etc/systemd/system/multi-user.target.wants/"
			if err := os.Rename(s.root+starts+"systemd-networkd.service", s.root+starts+"NetworkManager.service"); err != nil {
				t.Fatal(err)
			}
			put(t, s.root, interfacesFile, "source "+interfacesFolder+"/*\n", 0o644)
			put(t, s.root, interfacesFolder+"/people", "auto "+c.named+"\niface "+c.named+" inet static\n\taddress 10.1.0.10/24\n", 0o644)
			before, h := s.configuration(), s.host()
			exec := h.Exec
			h.Exec = func(ctx context.Context, call inside.Command) (inside.Output, error) {
				if call.Path == "nmcli" && call.Args[0] == "--get-values" {
					return inside.Output{Out: []byte(c.state), Code: c.code}, nil
				}
				return exec(ctx, call)
			}
			f := s.facet()
			p, err := f.plan(h, items(wanted), nil)
			if err != nil {
				t.Fatal(err)
			}
			m, err := f.tables.look(h)
			if err != nil {
				t.Fatal(err)
			}
			err = f.leavesToIfupdown(t.Context(), h, p, m)
			if (class(err) == wire.Refused) != c.refused || !c.refused && err != nil {
				t.Fatalf("it ended with %v", err)
			}
			if !c.refused {
				return
			}
			err = f.Apply(t.Context(), h, items(wanted), nil)
			if class(err) != wire.Refused || !strings.Contains(err.Error(), "leaves eth0 to ifupdown") || s.configuration() != before {
				t.Errorf("the change ended with %v", err)
			}
		})
	}
}
