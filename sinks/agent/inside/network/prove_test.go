package network

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// The default gateway of each family has to answer after a change.
func TestGatewaysOfBothFamilies(t *testing.T) {
	both := links{"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24", "fd00:1::11/64"},
		Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}, {To: "::/0", Via: "fd00:1::1"}}}}
	for silent, says := range map[string]string{"": "", "10.1.0.1": "the default gateway 10.1.0.1 does not answer", "fd00:1::1": "the default gateway fd00:1::1 does not answer"} {
		s := newSystem(t)
		f := s.facet()
		before := true // IPv4 answers then
		f.answers = func(_ context.Context, _ *inside.Host, a netip.Addr) bool {
			return a.String() != silent || a.Is4() && before
		}
		f.step = func(what string) { before = before && !strings.HasPrefix(what, "write "+networkdFolder) }
		err := f.Apply(t.Context(), s.host(), items(both), nil)
		if got := errorText(err); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("silent is %q: %v, want %q", silent, err, says)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
