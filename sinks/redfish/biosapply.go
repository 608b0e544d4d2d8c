package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// setBIOS has settings wait for the next boot, and returns when the BMC shows
// that they do.
func (m *machine) setBIOS(ctx context.Context, n *site.Node, s system) error {
	f, _, r, err := m.resolveBIOS(ctx, s, n)
	if err != nil {
		return err
	}
	for _, field := range slices.Sorted(maps.Keys(r.Unresolved)) {
		return refused("bios.%s: %s; nothing was written", field, printable(r.Unresolved[field]))
	}
	names := f.missing(r)
	if len(names) == 0 {
		return nil
	}
	if m.has(biosByJob) {
		if err := m.clearWaiting(ctx, f, r); err != nil {
			return err
		}
		if f, _, r, err = m.resolveBIOS(ctx, s, n); err != nil {
			return err
		}
		if names = f.missing(r); len(names) == 0 {
			return nil // what waited was all there was to it
		}
	}
	task, err := m.stage(ctx, f, r, names)
	if err != nil {
		return err
	}
	return m.showsStaged(ctx, s, f, r, names, task)
}

// clearWaiting makes room for a job: one that holds other values is taken back,
// and what others left to be changed by it is not made part of ours.
func (m *machine) clearWaiting(ctx context.Context, f firmware, r bios.Resolved) error {
	if err := m.dropJobs(ctx, f.jobs); err != nil {
		return err
	}
	if err := m.readWaiting(ctx, &f); err != nil {
		return err
	}
	waiting := attributesOf(f.waiting)
	foreign := slices.ContainsFunc(slices.Collect(maps.Keys(waiting)), func(name string) bool { return r.Want[name] == "" })
	clear := clearTarget(f.waiting)
	if !foreign || clear == "" {
		return nil
	}
	return m.client.post(ctx, clear, map[string]any{})
}

// clearTarget is the action that drops what waits, where there is one.
func clearTarget(settings object) string {
	for name, action := range at[map[string]object](settings, "Actions", "Oem") {
		if strings.HasSuffix(name, ".ClearPending") {
			return at[string](action, "target")
		}
	}
	return ""
}

// stage sends settings. What can be set only together with others is left for
// after the boot by a BMC that does not take them together.
func (m *machine) stage(ctx context.Context, f firmware, r bios.Resolved, names []string) (task string, err error) {
	task, err = m.send(ctx, f, r, names)
	first := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return f.registry.LockedBy(name, f.now) != "" })
	if hasStatus(err, http.StatusBadRequest) && len(first) > 0 && len(first) < len(names) {
		return m.send(ctx, f, r, first)
	}
	return task, err
}

func (m *machine) send(ctx context.Context, f firmware, r bios.Resolved, names []string) (task string, err error) {
	attributes := map[string]any{}
	for _, name := range names {
		attributes[name] = inType(f.registered(name), r.Want[name], f.current[name])
	}
	body := map[string]any{"Attributes": attributes}
	timed := slices.Contains(f.times, "OnReset") && !m.memory.plain && !m.has(noApplyTime)
	if timed {
		body["@Redfish.SettingsApplyTime"] = map[string]string{"ApplyTime": "OnReset"}
	}
	was := f.waiting
	if f.settings == f.path {
		was = f.resource
	}
	resp, err := m.client.change(ctx, f.settings, was, body)
	if timed && hasStatus(err, http.StatusBadRequest) && strings.Contains(err.Error(), "SettingsApplyTime") {
		m.memory.plain = true
		m.habits.met(noApplyTime)
		delete(body, "@Redfish.SettingsApplyTime")
		resp, err = m.client.change(ctx, f.settings, was, body)
	}
	if err != nil {
		return "", err
	}
	if f.settings == f.path {
		m.memory.sent = site.Values{}
		for _, name := range names {
			m.memory.sent[name] = r.Want[name]
		}
	}
	return taskOf(resp, m.client.host), nil
}

// taskOf is the task that an answer speaks of (DSP0266 section 14.6): the one in
// its body, or the one it leads to. It is not the task's monitor, which some BMCs
// delete with the task when it is read. It is looked for on this BMC, by whatever
// host it is named.
func taskOf(resp *http.Response, host string) string {
	var o object
	if json.NewDecoder(resp.Body).Decode(&o) == nil && strings.HasPrefix(at[string](o, "@odata.type"), "#Task.") {
		makeRelative(o, host)
		return at[string](o, "@odata.id")
	}
	where, err := resp.Location()
	if err != nil || !strings.Contains(where.Path, "/Tasks/") || strings.Contains(strings.ToLower(where.Path), "monitor") {
		return ""
	}
	return where.Path
}

// taskFailed says how a task ended that did not do what it was for. One that is
// gone says nothing: tasks are purged.
func (m *machine) taskFailed(ctx context.Context, task string) error {
	if task == "" {
		return nil
	}
	o, err := m.client.get(ctx, task)
	if err != nil {
		return nil
	}
	if state := at[string](o, "TaskState"); slices.Contains([]string{"Exception", "Killed", "Cancelled"}, state) {
		return refused("the BMC's task %s ended as %s: %s", words(o, "Id"), state, said(at[[]object](o, "Messages")))
	}
	return nil
}

// showsStaged waits until what was sent waits for a boot, or is in effect. A job
// that was just made is not found for a few seconds.
func (m *machine) showsStaged(ctx context.Context, s system, was firmware, r bios.Resolved, names []string, task string) error {
	if was.settings == was.path {
		return nil // it cannot show what waits; the boot proves it
	}
	return m.wait(ctx, m.opts.Settle, "the settings to wait for a boot", func() (bool, error) {
		f, err := m.bios(ctx, s)
		if notYet(err) {
			return false, nil
		}
		f.registry = was.registry
		if err != nil || shown(f, r, names) && (len(f.jobs) > 0 || !m.has(biosByJob)) {
			return err == nil, err
		}
		return false, m.taskFailed(ctx, task)
	})
}

// shown says whether settings wait for a boot or are in effect. Those that a
// BMC left for later do not count, as long as others do.
func shown(f firmware, r bios.Resolved, names []string) bool {
	left := f.missing(r)
	return len(left) < len(names) && !slices.ContainsFunc(left, func(name string) bool {
		return f.registry.LockedBy(name, f.now) == ""
	})
}

// notYet says whether an answer is one of those that BMCs give while they are at
// it.
func notYet(err error) bool {
	return errors.Is(err, driver.ErrBusy) || hasStatus(err, http.StatusNotFound)
}

// boots boots the machine, so that what waits takes effect.
func (m *machine) boots(ctx context.Context, step site.Step, n *site.Node, s system) error {
	forBIOS := slices.ContainsFunc(step.Changes, func(c site.Change) bool { return strings.HasPrefix(c.Field, string(site.FacetBIOS)+".") })
	if forBIOS {
		return m.bootForBIOS(ctx, step, n, s)
	}
	return m.restart(ctx, step, n, s)
}

// powerUp powers on. That boot takes over the settings that wait, and is waited
// for, lest another one cuts it off. One that does not is no failure of the
// power-on; what is left is planned anew.
func (m *machine) powerUp(ctx context.Context, step site.Step, n *site.Node, s system) error {
	t, err := m.takesOver(ctx, n, s)
	if err == nil {
		err = m.start(ctx, step, n, s)
	}
	if err != nil || t == nil {
		return err
	}
	m.memory.sent = nil
	if err := t.wait(ctx, 3*m.opts.Settle); !isSlow(err) {
		return err
	}
	return nil
}

// takesOver watches the next boot, nil when no settings wait for it. What cannot
// be read of them keeps no machine from being switched on.
func (m *machine) takesOver(ctx context.Context, n *site.Node, s system) (*takeover, error) {
	if !n.Asks(site.FacetBIOS) {
		return nil, nil
	}
	f, _, r, err := m.resolveBIOS(ctx, s, n)
	if over(ctx, err) {
		return nil, err
	}
	if err != nil || !f.waits(r) {
		return nil, nil
	}
	return &takeover{machine: m, system: s, was: f, r: r}, nil
}

// bootForBIOS returns when the settings that wait have taken effect: proven by
// their values, for jobs and tasks are purged. A boot that was begun before is
// waited for first.
func (m *machine) bootForBIOS(ctx context.Context, step site.Step, n *site.Node, s system) error {
	f, _, r, err := m.resolveBIOS(ctx, s, n)
	if err != nil {
		return err
	}
	if f.booted(r) {
		return nil
	}
	t := &takeover{machine: m, system: s, was: f, r: r}
	if step.Resumed && s.on() || f.running() {
		if err := t.wait(ctx, m.opts.Settle); err != nil && !isSlow(err) {
			return err
		}
		if f, _, r, err = m.resolveBIOS(ctx, s, n); err != nil || f.booted(r) {
			return err
		}
	}
	if err := m.restart(ctx, step, n, s); err != nil {
		return err
	}
	m.memory.sent = nil
	// A machine that takes settings over boots twice, and checks itself at length.
	return t.wait(ctx, 3*m.opts.Settle)
}

// waits says whether any of what is wanted waits for a boot.
func (f firmware) waits(r bios.Resolved) bool {
	return len(f.jobs) > 0 || slices.ContainsFunc(slices.Collect(maps.Keys(r.Want)), func(name string) bool {
		_, next := f.next(name)
		return next
	})
}

// booted says whether no boot has anything to do. What waits at the resource
// itself is shown by nothing, so that only the values tell.
func (f firmware) booted(r bios.Resolved) bool {
	return !f.waits(r) && (f.settings != f.path || f.reached(r))
}

// running says whether a job is at it.
func (f firmware) running() bool { return slices.ContainsFunc(f.jobs, job.running) }

func isSlow(err error) bool {
	var slow *noEffectError
	return errors.As(err, &slow)
}

// takeover watches a boot take settings over.
type takeover struct {
	*machine
	system system
	was    firmware
	r      bios.Resolved
	clear  time.Time // since when nothing waits any more
}

func (t *takeover) wait(ctx context.Context, limit time.Duration) error {
	t.clear = time.Time{}
	return t.machine.wait(ctx, limit, "the settings to take effect", func() (bool, error) {
		done, err := t.done(ctx)
		if notYet(err) {
			return false, nil
		}
		return done, err
	})
}

// done says whether the boot is over: everything is as wanted, or nothing waits
// any more, for as long as a machine takes to tell. A job that failed is told.
func (t *takeover) done(ctx context.Context) (bool, error) {
	f, err := t.bios(ctx, t.system)
	if err != nil {
		return false, err
	}
	f.registry = t.was.registry
	if f.waits(t.r) {
		t.clear = time.Time{}
		return false, nil
	}
	if err := t.jobFailed(ctx); err != nil {
		return false, err
	}
	if t.clear.IsZero() {
		t.clear = time.Now()
	}
	return f.reached(t.r) || time.Since(t.clear) > t.opts.Grace, nil
}

// reached says whether all that is wanted is.
func (f firmware) reached(r bios.Resolved) bool {
	for name, want := range r.Want {
		if f.now(name) != want {
			return false
		}
	}
	return true
}

// jobFailed says how a job ended that was there before the boot, unless it was
// purged since.
func (t *takeover) jobFailed(ctx context.Context) error {
	if len(t.was.jobs) == 0 {
		return nil
	}
	all, err := t.jobs(ctx, t.system)
	if err != nil {
		return err
	}
	for _, j := range all {
		before := slices.ContainsFunc(t.was.jobs, func(was job) bool { return was.id() == j.id() })
		if before && j.failed() {
			return refused("the BMC's job %s ended as %s: %s", j.id(), j.shown(), words(j.object, "Message"))
		}
	}
	return nil
}
