package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What waits for approval on a virtual machine is shown with its hypervisor.
func TestWaitingNamesTheHypervisor(t *testing.T) {
	var out bytes.Buffer
	printWaiting(&screen{&out}, &site.Status{Waiting: site.Losses{{
		Node: "vm-1", Machine: site.Identity{UUID: "5e1d0000-0300-4000-8000-000000000033"}, Hypervisor: "hv-1", Action: "zeroize", Lost: "the machine and all its disks", Disks: "root 20GiB in the pool default"}}})
	if want := "vm-1 (UUID 5e1d0000-0300-4000-8000-000000000033 on hv-1): zeroize loses the machine and all its disks; disks: root 20GiB in the pool default\n"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s", out.String())
	}
}

// What waits for approval is shown with the disks that the digest names.
func TestWaitingNamesTheDisks(t *testing.T) {
	for disks, want := range map[string]string{
		"CUSTOMER-1, CUSTOMER-2": "loses everything on its disks; disks: CUSTOMER-1, CUSTOMER-2\n",
		site.DisksUnknown:        "loses everything on its disks; Slipway cannot tell which disks these are\n",
		"":                       "loses everything on its disks; Slipway has not read its disks yet\n",
	} {
		var out bytes.Buffer
		printWaiting(&screen{&out}, &site.Status{Approve: strings.Repeat("a", 32), Waiting: site.Losses{{
			Node: "a", Machine: site.Identity{UUID: "5e1d0000-0300-4000-8000-000000000033"}, Action: "install generation 2", Lost: "everything on its disks",
			Generation: 2, Image: "d1", Disks: disks, Attempt: 1}}})
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s", out.String())
		}
	}
}
