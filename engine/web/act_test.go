package web

import (
	"strings"
	"testing"
)

// Whoever may approve on some racks and may not read the status of the site is offered no set: the page
// cannot show what it destroys.
func TestNoSetIsApprovedUnseen(t *testing.T) {
	address, as := onNetwork(t, &fleet{said: "there"})
	for who, offered := range map[string]bool{"ana@example.org": true, "carol@example.org": false} {
		status, text, _ := sends(t, as(who), "GET", address+"/sites/berlin/do/approve?digest="+digestOfSet, "")
		if status != 200 {
			t.Fatalf("%s: %d", who, status)
		}
		if got := strings.Contains(text, `name="digest" value="`+digestOfSet); got != offered {
			t.Errorf("%s: the form has the digest: %t", who, got)
		}
		if got := strings.Contains(text, "everything on 2 disks"); got != offered {
			t.Errorf("%s: the losses are shown: %t", who, got)
		}
		if got := strings.Contains(text, "You may not read what this set destroys, so you cannot approve it here."); got == offered {
			t.Errorf("%s: is told that they may not read it: %t", who, got)
		}
	}
}
