// Package probe checks the health of a system: units, ports, requests and a command of the site. It changes
// nothing, and always ends in time.
package probe

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/systemd"
)

// These are the time limits of one probe, and of all probes, which run at once.
const (
	connecting = 3 * time.Second
	answering  = 5 * time.Second
	unitsTime  = 5 * time.Second
	longest    = 18 * time.Second
)

// running bounds the site's command. Tests use a shorter time.
var running = 10 * time.Second

// maxSaid bounds the text of a probe, in characters.
const maxSaid = 300

// answers collects the results of probes until the look is over.
type answers struct {
	mu   sync.Mutex
	seen inside.Seen
	over bool
}

// say records the result of a probe: item.Passed or what is wrong, or why it could not be tried.
func (a *answers) say(key, said, unread string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
	case unread != "":
		a.seen.Unread[key] = brief(unread)
	default:
		a.seen.Have[key] = brief(said)
	}
}

// Look tries all probes at once. Seen.Have holds item.Passed or what is wrong. Seen.Unread holds what could not be
// tried.
func Look(ctx context.Context, h *inside.Host, asked item.Probes) inside.Seen {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	a := &answers{seen: inside.Seen{Have: map[string]string{}, Unread: map[string]string{}}}
	var units []item.Probe
	var all sync.WaitGroup
	try := func(keys []item.Probe, f func()) {
		all.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					for _, p := range keys {
						a.say(p.Key, "", fmt.Sprintf("%s: this is a fault of Slipway, report it: %v", p.Key, v))
					}
				}
			}()
			f()
		})
	}
	for _, p := range asked.Probes {
		switch {
		case !h.Live || h.Root != "/":
			a.say(p.Key, "", p.Key+": the system does not run")
		case p.Unit != "":
			units = append(units, p)
		case p.Path != "":
			try([]item.Probe{p}, func() { a.say(p.Key, request(ctx, p, asked.Addresses), "") })
		case p.Port != 0:
			try([]item.Probe{p}, func() { a.say(p.Key, port(ctx, p.Port, asked.Addresses), "") })
		case len(p.Command) > 0:
			try([]item.Probe{p}, func() { a.command(ctx, h, p) })
		default:
			a.say(p.Key, "", p.Key+": the program on the machine cannot look at this")
		}
	}
	if len(units) > 0 {
		try(units, func() { a.units(ctx, h, units) })
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for _, p := range asked.Probes {
		_, told := a.seen.Have[p.Key]
		if _, unread := a.seen.Unread[p.Key]; !told && !unread {
			a.seen.Unread[p.Key] = p.Key + " was not looked at to the end in time"
		}
	}
	return a.seen
}

// units asks systemd about all units at once.
func (a *answers) units(ctx context.Context, h *inside.Host, units []item.Probe) {
	var names []string
	for _, p := range units {
		names = append(names, p.Unit)
	}
	ctx, cancel := context.WithTimeout(ctx, unitsTime)
	defer cancel()
	told, err := systemd.Show(ctx, h, names, "LoadState", "ActiveState", "SubState")
	for i, p := range units {
		if err != nil {
			a.say(p.Key, "", p.Unit+": "+err.Error())
			continue
		}
		a.say(p.Key, unit(p.Unit, told[i]["LoadState"], told[i]["ActiveState"], told[i]["SubState"]), "")
	}
}

// unit describes a unit, by the states of systemd.unit(5).
func unit(name, load, active, sub string) string {
	switch {
	case active == "active" || active == "reloading" || active == "refreshing":
		return item.Passed
	case load == "not-found":
		return name + " does not exist"
	case load == "masked":
		return name + " is masked"
	case active == "activating" && sub != "":
		return fmt.Sprintf("%s is activating (%s)", name, sub)
	case active == "":
		return name + " has no state that systemd reports"
	}
	return name + " is " + active
}

// command runs the site's program as nobody, with empty input. Processes that it leaves in its group are ended.
func (a *answers) command(ctx context.Context, h *inside.Host, p item.Probe) {
	name := "`" + strings.TrimPrefix(p.Key, "command ") + "`"
	out, err := h.Exec(ctx, inside.Command{Path: p.Command[0], Args: p.Command[1:], Timeout: running, Nobody: true})
	said := out.LastLines(1)
	if said != "" {
		said = ": " + said
	}
	switch {
	case err != nil && out.Code != -1: // it did not start
		a.say(p.Key, fmt.Sprintf("%s cannot be run: %v", name, err), "")
	case err != nil:
		a.say(p.Key, fmt.Sprintf("%s: %v%s", name, err, said), "")
	case out.Code != 0:
		a.say(p.Key, fmt.Sprintf("%s ended with %d%s", name, out.Code, said), "")
	default:
		a.say(p.Key, item.Passed, "")
	}
}

// brief is one printable line of bounded length.
func brief(text string) string {
	text = strings.Join(strings.Fields(inside.Lines(strings.ReplaceAll(text, "\n", " "), 1)), " ")
	if r := []rune(text); len(r) > maxSaid {
		return string(r[:maxSaid]) + "…"
	}
	return text
}
