package kernel

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Parameters that a person has added are told where the kernel has them.
func TestSurvey(t *testing.T) {
	f := newFake(t, grub)
	f.put("/etc/default/grub", "# a comment\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash isolcpus=2-5\"\nGRUB_CMDLINE_LINUX='console=tty0 console=ttyS0 mitigations=off nosmt'\n")
	f.put("/etc/default/grub.d/10-more.cfg", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepages=4 resume=UUID=1\"\n")
	line := "BOOT_IMAGE=/vmlinuz root=UUID=1 ro console=tty0 console=ttyS0 mitigations=off nosmt hugepages=4 resume=UUID=1 quiet splash"
	f.put("/proc/cmdline", line+" isolcpus=2-5\n")
	f.put(grubConfig, "menuentry x {\n\tlinux /vmlinuz "+line+" isolcpus=2-7\n}\n")
	found, err := facet{f.before}.Survey(t.Context(), f.host)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"parameters.mitigations": "off", "parameters.nosmt": "true", "parameters.hugepages": "4"}
	if diff := cmp.Diff(want, item.Values(found.Items)); diff != "" {
		t.Error(diff)
	}
	var left []string
	for _, l := range found.Left {
		left = append(left, l.What)
	}
	if slices.Sort(left); !slices.Equal(left, []string{"parameters.console", "parameters.isolcpus"}) {
		t.Errorf("left are %q", left)
	}
	if f.writes > 0 || len(f.calls) > 0 {
		t.Errorf("the survey has written, or run %q", f.calls)
	}
}

// A system without a boot loader of its own has no command line to tell.
func TestSurveyOfAContainer(t *testing.T) {
	f := newFake(t, noLoader)
	f.put("/run/systemd/container", "systemd-nspawn")
	if found, err := (facet{f.before}).Survey(t.Context(), f.host); err != nil || len(found.Items)+len(found.Left) > 0 {
		t.Errorf("got %+v, %v", found, err)
	}
}
