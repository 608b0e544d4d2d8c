package plan

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// notes are differences that nothing can be done about from here.
func notes(n *site.Node, m site.Memory) []string {
	var notes []string
	if a := m.Recorded.Adopted; a != nil && a.BMC != "" && a.BMC != n.Endpoints[site.BMC].URL {
		notes = append(notes, fmt.Sprintf("its BMC endpoint changes from %s to %s", a.BMC, n.Endpoints[site.BMC].URL))
	}
	if mk := m.Observed.Marker; mk != nil && mk.Node != n.Name {
		notes = append(notes, fmt.Sprintf("the installed system says that it is node %q", mk.Node))
	}
	if !n.Identity.Known() && m.Observed.Identity.Known() {
		notes = append(notes, "the machine is "+full(m.Observed.Identity)+"; the design names none")
	}
	return append(notes, hardwareNotes(n.Hardware, m.Observed.Inventory)...)
}

func hardwareNotes(want site.Hardware, have *site.Inventory) []string {
	if have == nil {
		return nil
	}
	var notes []string
	text := func(what, want, have string) {
		if want != "" && want != have {
			notes = append(notes, fmt.Sprintf("its %s is %q, the design expects %q", what, have, want))
		}
	}
	text("manufacturer", want.Manufacturer, have.Manufacturer)
	text("model", want.Model, have.Model)
	if least := float64(want.Memory) / (1 << 30); have.MemoryGiB < least {
		notes = append(notes, fmt.Sprintf("it has %g GiB of memory, the design expects at least %s", have.MemoryGiB, want.Memory))
	}
	if have.Processors < want.Sockets {
		notes = append(notes, fmt.Sprintf("it has %d processors, the design expects at least %d", have.Processors, want.Sockets))
	}
	return notes
}

// imageNote tells of an image that changed without a new generation.
func imageNote(s *site.Site, n *site.Node, m site.Memory) []string {
	i := m.Recorded.Installed
	if i == nil || n.Image == "" || n.Generation != i.Generation || s.Images[n.Image] == nil || s.Images[n.Image].SHA256 == i.Image {
		return nil
	}
	return []string{fmt.Sprintf("image %s has changed since generation %d was installed; raise the generation to install it", n.Image, i.Generation)}
}
