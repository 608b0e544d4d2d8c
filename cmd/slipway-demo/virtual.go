package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

var virtual = play{openRack, "\n  A site of three virtual machines, on this computer. It takes about four minutes on two cores.\n" +
	"  Real: slipway, Git, libvirt, QEMU, and the Debian in the machines with its cloud-init and SSH.\n" +
	"  Simulated: the machines' processor, which is why they are slow. GitHub and KVM are not needed.\n\n",
	[]act{
		{"check", "is the design sound?", check},
		{"plan", "what would be done?", planVirtual},
		{"first boots", "machines that are not there are defined, installed and booted", firstBoots},
		{"memory", "a commit gives web-1 more memory, which takes a restart", memory},
		{"anew", "a commit raises the generation of web-2, which erases it", anew},
		{"the end", "a commit takes web-2 out of service", theEnd},
		{"status", "what is left in Git", statusVirtual},
	}}

func planVirtual(ctx context.Context, s *stage) error {
	out, err := s.ask(ctx, "slipway", "plan", "site")
	if err != nil {
		return err
	}
	s.show.answer(lastLine(out))
	return nil
}

func firstBoots(ctx context.Context, s *stage) error {
	if err := s.startDaemon(); err != nil {
		return err
	}
	err := s.until(ctx, "a machine on the hypervisor", s.patience, func(*site.Report) bool {
		return s.designed(ctx, "db-1")
	})
	if err != nil {
		return err
	}
	s.show.proof("db-1 is defined; the web servers wait, since they need a database")
	err = s.until(ctx, "db-1 to write to its console", s.patience, func(*site.Report) bool {
		text, err := s.daemon.Console(ctx, "", "db-1")
		return err == nil && len(text) > 0
	})
	if err == nil {
		err = s.follow("slipway", "logs", "db-1", "--console", "--follow")
	}
	if err != nil {
		return err
	}
	err = s.until(ctx, "db-1 in-sync", s.patience, func(r *site.Report) bool { return node(&r.Status, "db-1").State == site.InSync })
	s.unfollow()
	if err != nil {
		return err
	}
	s.show.proof("db-1 has booted, answers with the host key that it was given, and says itself what it was installed from")
	if err := s.untilInSync(ctx, nil); err != nil {
		return err
	}
	s.show.proof("3 of 3 in-sync; the machines themselves say:")
	return s.showGuests(ctx)
}

func memory(ctx context.Context, s *stage) error {
	return s.touching(ctx, "web-1", func() error {
		err := s.add("rack.cue", `nodes: "web-1": virtual: memory: "448MiB"`)
		if err == nil {
			err = s.forecast(ctx, "web-1")
		}
		if err == nil {
			err = s.commit(ctx, "web-1: more memory")
		}
		return err
	})
}

func anew(ctx context.Context, s *stage) error {
	return s.touching(ctx, "web-2", func() error {
		err := s.add("rack.cue", webAnew)
		if err == nil {
			err = s.forecast(ctx, "web-2")
		}
		if err == nil {
			err = s.commit(ctx, "web-2: a fresh system")
		}
		if err != nil {
			return err
		}
		return s.approve(ctx, "web-2")
	})
}

// webAnew is what the design says of web-2 beside its sisters, and webEnds the
// same when it goes.
const (
	webAnew = `nodes: "web-2": generation: 2`
	webEnds = `nodes: "web-2": {generation: 2, decommission: true}`
)

func theEnd(ctx context.Context, s *stage) error {
	err := s.edit("rack.cue", webAnew, webEnds)
	if err == nil {
		err = s.commit(ctx, "web-2 goes")
	}
	if err == nil {
		err = s.approve(ctx, "web-2")
	}
	if err != nil {
		return err
	}
	err = s.until(ctx, "web-2 to be gone", s.patience, func(*site.Report) bool {
		return s.have(ctx, "web-2", site.FacetDefinition, "state") == site.StateAbsent
	})
	if err != nil {
		return err
	}
	s.show.proof("web-2 and its disk are gone from the hypervisor; now it may leave the design")
	s.nodes--
	err = s.edit("rack.cue", webEnds+"\n", "")
	if err == nil {
		err = s.edit("rack.cue", "list.Range(1, 3, 1)", "list.Range(1, 2, 1)")
	}
	if err == nil {
		err = s.commit(ctx, "without web-2")
	}
	if err == nil {
		err = s.untilInSync(ctx, nil)
	}
	if err != nil {
		return err
	}
	s.show.proof("2 of 2 in-sync")
	return s.showGuests(ctx)
}

func statusVirtual(ctx context.Context, s *stage) error {
	before := len(s.rack.Writes())
	if err := s.lookAgain(ctx); err != nil {
		return err
	}
	if more := s.rack.Writes()[before:]; len(more) > 0 {
		return fmt.Errorf("with all in-sync, these calls of libvirt changed something: %v", more)
	}
	s.show.proof(fmt.Sprintf("with all in-sync nothing is written: libvirt's own log has %d calls that changed something, as before", before))
	return status(ctx, s)
}

// touching has one machine changed, and holds all others to the boots that they
// had.
func (s *stage) touching(ctx context.Context, name string, change func() error) error {
	before := s.boots(ctx)
	if err := change(); err != nil {
		return err
	}
	if err := s.untilInSync(ctx, nil); err != nil {
		return err
	}
	if err := s.lookAgain(ctx); err != nil {
		return err
	}
	for other, boot := range s.boots(ctx) {
		if (other == name) == (boot == before[other]) {
			return fmt.Errorf("%s had boot %s and has %s, and only %s was to boot", other, before[other], boot, name)
		}
	}
	s.show.proof(fmt.Sprintf("%d of %[1]d in-sync; only %s has booted, the others run on:", s.nodes, name))
	return s.showGuests(ctx)
}

// forecast shows what the plan says of a node, before anything is committed.
func (s *stage) forecast(ctx context.Context, name string) error {
	out, err := s.ask(ctx, "slipway", "plan", "site")
	if err != nil {
		return err
	}
	for _, line := range ofNode(out, name) {
		s.show.quote(line)
	}
	for _, line := range destroyed(out) {
		s.show.quote(line)
	}
	s.show.answer(lastLine(out))
	return nil
}

// ofNode is what a plan says of a node, by its steps and their changes.
func ofNode(plan, name string) []string {
	for part := range strings.SplitSeq(plan, "\n\n") {
		if strings.HasPrefix(part, name+" ") || strings.HasPrefix(part, name+"\n") {
			return strings.Split(strings.TrimRight(part, "\n"), "\n")
		}
	}
	return nil
}

// approve waits until what happens to a node waits for a person, and approves it.
func (s *stage) approve(ctx context.Context, name string) error {
	var waiting site.Status
	err := s.until(ctx, name+" waiting for approval", s.patience, func(r *site.Report) bool {
		waiting = r.Status
		return len(waiting.Waiting) == 1 && waiting.Waiting[0].Node == name && waiting.Approve != "" && node(&waiting, name).State == site.Blocked
	})
	if err != nil {
		return err
	}
	s.show.proof("it waits for a person:")
	s.show.answer(nodeLine(&waiting, name))
	return s.tell(ctx, "slipway", "approve", waiting.Approve)
}

// known is what the daemon knows of the nodes; nothing while it does not answer.
func (s *stage) known(ctx context.Context) map[string]site.Memory {
	k, _ := s.daemon.Known(ctx, "")
	return k.Nodes
}

// have is one value of a node as it was last seen.
func (s *stage) have(ctx context.Context, name string, facet site.Facet, field string) string {
	return s.known(ctx)[name].Observed.Facets[facet].Have[field]
}

// designed says whether a machine is on the hypervisor.
func (s *stage) designed(ctx context.Context, name string) bool {
	state := s.have(ctx, name, site.FacetDefinition, "state")
	return ctx.Err() == nil && state != "" && state != site.StateAbsent
}

// boots are the IDs of the boots that the systems are in.
func (s *stage) boots(ctx context.Context) map[string]string {
	boots := map[string]string{}
	for name, m := range s.known(ctx) {
		boots[name] = m.Observed.Facets[site.FacetOS].Have["bootID"]
	}
	return boots
}

// lookAgain waits until every machine was looked at once more, inside too.
func (s *stage) lookAgain(ctx context.Context) error {
	began := time.Now()
	if _, err := s.daemon.Do(ctx, "", site.Order{Verb: site.VerbRetry}); err != nil {
		return err
	}
	return s.until(ctx, "another look at every machine", s.patience, func(*site.Report) bool {
		all := s.known(ctx)
		for _, m := range all {
			if m.Observed.Facets[site.FacetOS].Seen.Before(began) || m.Observed.Facets[site.FacetDefinition].Seen.Before(began) {
				return false
			}
		}
		return len(all) > 0
	})
}

// showGuests shows what the machines say of themselves.
func (s *stage) showGuests(ctx context.Context) error {
	all := s.known(ctx)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		o := all[name].Observed
		if o.Marker == nil {
			return fmt.Errorf("%s does not say what it was installed from", name)
		}
		s.show.answer(fmt.Sprintf("%s  generation %d of image %.12s…, %s of memory, boot %.8s",
			name, o.Marker.Generation, o.Marker.Image, o.Facets[site.FacetDefinition].Have["memory"], o.Facets[site.FacetOS].Have["bootID"]))
	}
	return nil
}
