package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// What an agent tells of erased disks is heard at once, of the disks alone that it was asked to
// erase. One that says nothing of a disk has not done what it was asked for.
func TestAgentTellsOfErasedDisks(t *testing.T) {
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFPWpdVTB1pw77PbuCSIbtGfp/5U0O8L3tgZg87e64Sv"
	step := site.Step{Action: site.ActionInstall, Facet: site.FacetImage, Impact: site.ImpactDestructive, Machine: site.Identity{UUID: uuidOne}, Image: &site.Image{Kind: site.KindRoot, SHA256: "d1"}}
	l := item.Layout{Disks: []item.LayoutDisk{{Name: "os", Serial: "N1"}}, Destroys: []item.Destroyed{{Name: "os", Serial: "N1", Bytes: 7}}, Erase: item.EraseSecure}
	good := item.Erasure{Serial: "N1", Disk: "\x1b[2Jother", Bytes: 9, Done: true, Tries: []item.EraseTry{{Method: "over\x1bwrite", Verified: "all \x1b[1mof it"}}}
	failed := item.Erasure{Serial: "N1", Tries: []item.EraseTry{{Method: "overwrite", Why: strings.Repeat("x", 5000)}}}
	boast := item.Erasure{Serial: "N1", Done: true, Tries: []item.EraseTry{{Method: "overwrite"}}}
	for name, c := range map[string]struct {
		tells  []item.Erasure // on the way
		is     wire.Installed
		fails  error
		before []string
		says   string
		heard  []string // serial numbers, with "!" behind those that were not erased
	}{
		"at once and at the end": {tells: []item.Erasure{good}, is: wire.Installed{Erased: []item.Erasure{good}}, heard: []string{"N1", "N1"}},
		"at the end alone":       {is: wire.Installed{Erased: []item.Erasure{good}}, heard: []string{"N1"}},
		"nothing":                {says: "does not say that it has erased the disk N1"},
		"by an earlier try":      {before: []string{"N1"}},
		"found finished":         {is: wire.Installed{Already: true}},
		"another disk":           {is: wire.Installed{Erased: []item.Erasure{{Serial: "N2", Done: true, Tries: good.Tries}}}, says: "the disk N1"},
		"without a word on how":  {is: wire.Installed{Erased: []item.Erasure{boast}}, says: "the disk N1", heard: []string{"N1!"}},
		"it fails":               {tells: []item.Erasure{failed}, is: wire.Installed{Erased: []item.Erasure{failed}}, fails: &wire.Error{Class: wire.Failed, Text: "1 of 1 disks could not be erased"}, says: "could not be erased", heard: []string{"N1!", "N1!"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			caller := d.caller(d.expect(bootOne()), machineOne())
			caller.Program.Install = func(_ context.Context, h *inside.Host, r wire.Request) (*wire.Installed, error) {
				if !slices.Equal(r.Install.Erased, c.before) || r.Install.Layout.Erase != item.EraseSecure {
					t.Errorf("asked for %+v", r.Install)
				}
				for _, e := range c.tells {
					h.TellErased(e)
				}
				h.TellHostKeys([]string{"no key", key})
				is := c.is
				is.SHA256, is.HostKeys = "d1", []string{key}
				return &is, c.fails
			}
			d.stays(caller)
			m := d.agent("n1")
			m.(driver.Installer).Prepare(driver.Installation{Layout: l, SHA256: "d1", URL: "http://192.0.2.1/x.tar", Marker: `{"node":"n1"}`, Bytes: 5, Erased: c.before})
			var heard []string
			ctx := driver.HearErased(t.Context(), func(e item.Erasure) {
				text := e.ID()
				if !e.Done {
					text += "!"
				}
				heard = append(heard, text)
				last := e.Last()
				if e.Disk != "os" || e.Bytes != 7 || strings.Contains(last.Method+last.Verified+last.Why, "\x1b") || len(last.Why) > 600 {
					t.Errorf("kept is %+v", e)
				}
			})
			var keys []string
			ctx = driver.HearHostKeys(ctx, func(told []string) { keys = append(keys, told...) })
			err := m.Apply(ctx, step, &site.Node{Name: "n1"}, (&permitted{}).ask)
			if !slices.Equal(keys, []string{key}) {
				t.Errorf("the host keys that were told are %q", keys)
			}
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if !slices.Equal(heard, c.heard) {
				t.Errorf("heard was %q, want %q", heard, c.heard)
			}
		})
	}
}

// What an agent says is told, printable and in one line each: what its console had before it
// called, what it does, why it failed.
func TestAgentIsHeard(t *testing.T) {
	d := newDesk(t)
	caller := d.caller(d.expect(bootOne()), machineOne())
	caller.Said = func() []string {
		return slices.Repeat([]string{"[slipway 0.1 s] \x1b[2Jbooting\nhere"}, 3*wire.MaxSaid)
	}
	caller.Program.Install = func(_ context.Context, h *inside.Host, _ wire.Request) (*wire.Installed, error) {
		h.Tell("unpacking\x1b[2J the image")
		return nil, &wire.Error{Class: wire.Failed, Text: "mkfs ended with 1"}
	}
	d.stays(caller)
	m := d.agent("n1")
	m.(driver.Installer).Prepare(driver.Installation{Layout: item.Layout{Disks: []item.LayoutDisk{{Name: "os", Serial: "N1"}}}, SHA256: "d1", URL: "http://192.0.2.1/x.tar", Marker: "{}"})
	step := site.Step{Action: site.ActionInstall, Impact: site.ImpactDestructive, Machine: site.Identity{UUID: uuidOne}, Image: &site.Image{Kind: site.KindRoot, SHA256: "d1"}}
	if err := m.Apply(t.Context(), step, &site.Node{Name: "n1"}, (&permitted{}).ask); err == nil {
		t.Fatal("it did not fail")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.said) != wire.MaxSaid+2 || !strings.Contains(d.said[0], "n1: console: [slipway 0.1 s] ") || d.said[wire.MaxSaid+1] != "n1: Failed: mkfs ended with 1" ||
		!strings.HasPrefix(d.said[wire.MaxSaid], "n1: unpacking") || strings.ContainsAny(strings.Join(d.said, ""), "\x1b\n") {
		t.Errorf("said was %d lines: %q", len(d.said), d.said[max(0, len(d.said)-3):])
	}
}

// An agent is asked to erase the disks of a machine that leaves the design, and to install nothing,
// after permission was given; what it says came of it is held to that.
func TestAgentErasesAndInstallsNothing(t *testing.T) {
	step := site.Step{Action: site.ActionZeroize, Facet: site.FacetStorage, Impact: site.ImpactDestructive, Machine: site.Identity{UUID: uuidOne}}
	l := item.Layout{Disks: []item.LayoutDisk{{Name: "os", Serial: "N1"}}, Destroys: []item.Destroyed{{Name: "os", Serial: "N1", Bytes: 7}}, Erase: item.EraseSecure}
	prepared := driver.Installation{Layout: l, Marker: "erase 1"}
	good := item.Erasure{Serial: "N1", Done: true, Tries: []item.EraseTry{{Method: "overwrite", Verified: "all of it"}}}
	keeps, other := prepared, step
	keeps.Layout.Erase = ""
	other.Machine = site.Identity{UUID: uuidTwo}
	for name, c := range map[string]struct {
		step     site.Step
		prepared driver.Installation
		erased   []item.Erasure
		fails    error
		class    error
		says     string
		asks     int
	}{
		"it erases":              {step, prepared, []item.Erasure{good}, nil, nil, "", 1},
		"it says nothing":        {step, prepared, nil, nil, nil, "does not say that it has erased the disk N1", 1},
		"another machine":        {other, prepared, nil, nil, driver.ErrRefused, "another machine answers", 0},
		"nothing prepared":       {step, driver.Installation{}, nil, nil, driver.ErrRefused, "the erase was not prepared; nothing was written", 0},
		"nobody asks for it":     {step, keeps, nil, nil, driver.ErrRefused, "the erase was not prepared", 0},
		"it refuses":             {step, prepared, nil, &wire.Error{Class: wire.Refused, Text: "a disk is missing; nothing was written"}, driver.ErrRefused, "nothing was written", 1},
		"a disk that cannot be ": {step, prepared, nil, &wire.Error{Class: wire.Failed, Text: "1 of 1 disks could not be erased"}, nil, "could not be erased", 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			caller := d.caller(d.expect(bootOne()), machineOne())
			var asked *wire.Request
			caller.Program.Install = func(_ context.Context, _ *inside.Host, r wire.Request) (*wire.Installed, error) {
				asked = &r
				return &wire.Installed{Erased: c.erased}, c.fails
			}
			d.stays(caller)
			m := d.agent("n1")
			m.(driver.Installer).Prepare(c.prepared)
			p := &permitted{}
			err := m.Apply(t.Context(), c.step, &site.Node{Name: "n1"}, p.ask)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || errors.Is(err, driver.ErrRefused) != (c.class != nil) {
				t.Errorf("got %v", err)
			}
			if p.asked != c.asks || (asked != nil) != (c.asks > 0) {
				t.Errorf("permission was asked %d times, and the agent %v", p.asked, asked != nil)
			}
			if asked != nil && (asked.Op != wire.OpErase || asked.Install.UUID != uuidOne || asked.Install.Image.URL != "" || asked.Install.Layout.Erase != item.EraseSecure) {
				t.Errorf("asked for %+v", asked)
			}
		})
	}
}
