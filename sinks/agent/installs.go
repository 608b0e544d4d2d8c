package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Prepare implements driver.Installer.
func (c *called) Prepare(i driver.Installation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.is = i
}

// Installed implements driver.Installer.
func (c *called) Installed() driver.Installed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.did
}

// Credentials implements driver.Keyholder.
func (c *called) Credentials(get values) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credentials = get
}

// Supply implements driver.Supplied.
func (c *called) Supply(open func(sha256 string) (io.ReadCloser, int64, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.supply = open
}

// Apply installs a prepared system onto the disks. It looks at the machine on the same connection, and asks for
// permission right before the one request that destroys data. The agent checks all that it can before it writes,
// and says so if it refuses.
func (c *called) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	c.mu.Lock()
	is, get, open := c.is, c.credentials, c.supply
	c.did = driver.Installed{}
	c.mu.Unlock()
	if err := prepared(step, is); err != nil {
		return err
	}
	m, pci, err := c.look(ctx)
	if err != nil {
		return err
	}
	if got := identityFor(m, step.Machine); !step.Machine.Matches(got) {
		return refused("another machine answers: the step is for %s, this is %s; nothing was written", site.Printable(step.Machine.Full()), site.Printable(got.Full()))
	}
	asked, err := installOn(m, step, is)
	if err != nil {
		return err
	}
	var items []item.Item
	seen := &site.Platform{Family: n.References.Family, Model: line(m.Product), PCI: pciIDs(pci)}
	if asked.Apply, items, err = configured(n, is.Facets, seen, get); err != nil {
		return err
	}
	if err := may.Ask(ctx, step); err != nil {
		return err
	}
	op := wire.OpInstall
	if step.Retires() {
		op = wire.OpErase
	}
	result, err := c.request(ctx, wire.Request{Op: op, Install: &asked}, exchange{
		tell:   c.progress(ctx, is),
		supply: withTools(is.Medium, suppliedTo(items, open), open),
	})
	if err != nil {
		return err
	}
	done := erasedBy(ctx, result, is)
	if err := c.told(result); err != nil {
		return err
	}
	if step.Retires() {
		return c.erased(is.Layout, done, false)
	}
	if err := c.believe(is.SHA256, result.Installed); err != nil {
		return err
	}
	return c.erased(is.Layout, done, result.Installed.Already)
}

// prepared refuses a step that the agent does not take, or that was not prepared for it.
func prepared(step site.Step, is driver.Installation) error {
	switch {
	case !step.ByAgent():
		return fmt.Errorf("the agent in memory installs images and erases disks, and does nothing else: %w", errors.ErrUnsupported)
	case !step.Machine.Known():
		return refused("the step names no machine by UUID, serial number or MAC address; nothing was written")
	case step.Retires() && (len(is.Layout.Disks) == 0 || is.Layout.Erase == "" || is.Marker == ""):
		return refused("the erase was not prepared; nothing was written")
	case step.Retires():
	case len(is.Layout.Disks) == 0 || is.URL == "" || is.SHA256 == "" || is.Marker == "", len(is.Layout.Encrypted) > 0 && is.Passphrase.IsZero():
		return refused("the installation was not prepared; nothing was written")
	}
	return nil
}

// erasedBy tells what the agent says of the disks that it erased, and returns the IDs of all that are.
func erasedBy(ctx context.Context, result *wire.Result, is driver.Installation) []string {
	done := slices.Clone(is.Erased)
	if result.Installed != nil {
		for _, e := range result.Installed.Erased[:min(len(result.Installed.Erased), maxDisks)] {
			if e, ok := erasureOf(e, is.Layout); ok {
				driver.Erased(ctx, e)
				if e.Done {
					done = append(done, e.ID())
				}
			}
		}
	}
	return done
}

// installOn is the agent's install request, with the identity by which the agent checks the machine.
func installOn(m *wire.Machine, step site.Step, is driver.Installation) (wire.Install, error) {
	own := identity(*m)
	asked := wire.Install{Erased: is.Erased, Layout: is.Layout, Marker: is.Marker}
	if !step.Retires() {
		if !is.Passphrase.IsZero() {
			passphrase, err := is.Passphrase.Password()
			if err != nil {
				return asked, refused("the passphrase of encrypted disks cannot be sent: %w; nothing was written", err)
			}
			asked.Passphrase, asked.Derived = passphrase, is.Derived
		}
		asked.Boot = "uefi"
		asked.Image = wire.Image{Kind: step.Image.Kind, SHA256: is.SHA256, Bytes: is.Bytes, URL: is.URL, CA: is.CA}
	}
	if own.UUID != "" { // in the machine's own byte order, which may be swapped
		asked.UUID = m.UUID
	}
	if own.Serial != "" {
		asked.Serial = m.Serial
	}
	if asked.UUID == "" && asked.Serial == "" {
		return asked, refused("the machine tells its agent neither a UUID nor a serial number, so Slipway cannot be sure that it is the right one; nothing was written")
	}
	return asked, nil
}

// configured lists the items that the agent applies in the new system, by facet and all together.
func configured(n *site.Node, facets []site.Facet, seen *site.Platform, get values) (applies []wire.Apply, all []item.Item, err error) {
	for _, f := range facets {
		items, missing := giveSecrets(withoutProven(n.ItemsOn(f, seen)), get, newHashes(get))
		if err := firstOf(missing); err != nil {
			return nil, nil, refused("%w", err)
		}
		if len(items) > 0 {
			applies = append(applies, wire.Apply{Facet: string(f), Items: items})
			all = append(all, items...)
		}
	}
	return applies, all, nil
}

// erased checks that an agent that installed has erased all the disks it was to erase. If an earlier try had
// already finished, the agent may no longer know them.
func (c *called) erased(l item.Layout, done []string, already bool) error {
	if l.Erase == "" || already {
		return nil
	}
	for _, d := range l.Destroys {
		if id := (item.Erasure{Serial: d.Serial, WWN: d.WWN}).ID(); !slices.Contains(done, id) {
			return fmt.Errorf("the agent of %s says that it is done, but does not say that it has erased the disk %s, as the design asks: old data may still be on that disk", c.node, id)
		}
	}
	return nil
}

// mostTries and longestWhy bound what is kept of erasing one disk.
const (
	mostTries  = 16
	longestWhy = 500
)

// erasureOf is an agent's report on one disk, printable and bounded. It returns false for a disk that the agent was
// not asked to erase.
func erasureOf(e item.Erasure, l item.Layout) (item.Erasure, bool) {
	i := slices.IndexFunc(l.Destroys, func(d item.Destroyed) bool { return d.Serial == e.Serial && d.WWN == e.WWN })
	if i < 0 {
		return e, false
	}
	d := l.Destroys[i]
	is := item.Erasure{Disk: d.Name, Serial: d.Serial, WWN: d.WWN, Model: d.Model, Bytes: d.Bytes, Done: e.Done}
	for _, t := range e.Tries[:min(len(e.Tries), mostTries)] {
		is.Tries = append(is.Tries, item.EraseTry{Method: line(t.Method), Took: min(max(t.Took, 0), 1<<30), Verified: long(t.Verified), Why: long(t.Why)})
	}
	is.Done = is.Done && is.Last().Verified != ""
	return is, true
}

// long is an agent's text, printable and bounded.
func long(s string) string { return site.Shorten(site.Printable(s), longestWhy) }

// said formats a progress as one line.
func said(p wire.Progress) string {
	text := brief(p.Text)
	if p.Of > 0 {
		text += fmt.Sprintf(" (%d %%)", min(100, max(0, p.Done*100/p.Of)))
	}
	return text
}

// believe checks an agent's report on an installed system against the request.
func (c *called) believe(sha256 string, i *wire.Installed) error {
	if i == nil {
		return fmt.Errorf("the agent of %s says that it is done, but not what it has installed; look at the machine's console", c.node)
	}
	if i.SHA256 != sha256 {
		return fmt.Errorf("the agent of %s has installed the image sha256:%s, and was asked for sha256:%s", c.node, brief(i.SHA256), sha256)
	}
	keys := hostKeys(i.HostKeys)
	if len(keys) == 0 {
		return fmt.Errorf("the agent of %s reports no SSH host key of the system that it has installed, so Slipway could not recognize it", c.node)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = driver.Installed{HostKeys: keys, Already: i.Already, BootUnknown: line(i.EntriesUnknown)}
	return nil
}

// hostKeys are the valid public keys that an agent reported, sorted and bounded.
func hostKeys(told []string) (keys []string) {
	const mostKeys, longestKey = 16, 16 << 10
	for _, k := range told[:min(len(told), mostKeys)] {
		if len(k) > longestKey {
			continue
		}
		if public, _, _, _, err := gossh.ParseAuthorizedKey([]byte(k)); err == nil {
			keys = append(keys, string(trimmed(gossh.MarshalAuthorizedKey(public))))
		}
	}
	slices.Sort(keys)
	return keys
}

func trimmed(line []byte) []byte {
	for len(line) > 0 && line[len(line)-1] == '\n' {
		line = line[:len(line)-1]
	}
	return line
}

// progressEvery is the minimum interval between an agent's progress reports.
const progressEvery = 100 * time.Millisecond

// progress reports how far the installation is.
func (c *called) progress(ctx context.Context, is driver.Installation) func(wire.Progress) {
	began, last := time.Now(), time.Time{}
	return func(p wire.Progress) {
		if p.Erased != nil {
			if e, ok := erasureOf(*p.Erased, is.Layout); ok {
				driver.Erased(ctx, e)
			}
		}
		if keys := hostKeys(p.HostKeys); len(keys) > 0 {
			driver.HostKeys(ctx, keys)
		}
		if now := time.Now(); now.Sub(last) < progressEvery {
			return // an agent that reports constantly must not keep the daemon busy
		} else {
			last = now
		}
		driver.WaitingSince(ctx, "the agent: "+said(p), began, max(is.Limit, driver.LongestStep))
	}
}
