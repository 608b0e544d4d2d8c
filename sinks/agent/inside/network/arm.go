package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// arm saves the earlier state and prepares both ways back. If it fails, the configuration is untouched.
func (f *Facet) arm(ctx context.Context, h *inside.Host, c *change) error {
	program, err := f.executable()
	if err != nil {
		return err
	}
	if strings.ContainsAny(program, " \t\n\"'\\%$;") {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("this program is %q; its path must have no spaces and quotes", program)}
	}
	err = f.armed(ctx, h, c, program)
	if err != nil {
		_ = f.disarm(context.WithoutCancel(ctx), h, c.Name) // the first error counts; nothing was changed
		return &wire.Error{Class: wire.Failed, Text: "the network was not changed, because Slipway could not prepare the way back to the old settings: " + err.Error()}
	}
	return err
}

func (f *Facet) armed(ctx context.Context, h *inside.Host, c *change, program string) error {
	f.step("save the trees")
	if err := saveTrees(h, folder(c.Name), c.Paths); err != nil {
		return err
	}
	for _, path := range c.Paths {
		if _, _, err := readFile(h, folder(c.Name)+path); errors.Is(err, fs.ErrNotExist) {
			c.Absent = append(c.Absent, path)
		}
	}
	if err := h.Startable(program); err != nil {
		return err
	}
	f.step("make room for the way back")
	if err := makeRoom(h, c); err != nil {
		return err
	}
	f.step("write the marker")
	if err := writeMarker(h, c); err != nil {
		return err
	}
	unit := fmt.Sprintf(unitText, markerFile, program, c.Name)
	if err := f.write(h, write{bootUnit, []byte(unit), 0o644}); err != nil {
		return err
	}
	if err := f.write(h, write{bootLink, []byte(bootUnit), fs.ModeSymlink}); err != nil {
		return err
	}
	if err := f.startTimer(ctx, h, c.Name, program, f.Deadline); err != nil {
		return err
	}
	c.Armed = true
	f.step("the marker says armed")
	return writeMarker(h, c)
}

// againAfter is the interval between tries of a failed revert.
const againAfter = 30 * time.Second

// startTimer starts the timer that reverts a change. It repeats until the revert is done.
func (f *Facet) startTimer(ctx context.Context, h *inside.Host, name, program string, after time.Duration) error {
	return f.run(ctx, h, "systemd-run", "--quiet", "--collect", "--unit="+timerUnit(name),
		fmt.Sprintf("--on-active=%dms", max(after.Milliseconds(), 1)), "--timer-property=AccuracySec=100ms",
		fmt.Sprintf("--timer-property=OnUnitInactiveSec=%ds", int(againAfter.Seconds())),
		"--description=Slipway: set the network back unless its change is confirmed", program, "revert", name)
}

const unitText = `# Written by Slipway while a change of the network is not confirmed.
[Unit]
Description=Slipway: set the network back after a change that was not confirmed
DefaultDependencies=no
RequiresMountsFor=/var/lib/slipway-inside /etc
After=local-fs.target systemd-remount-fs.service
Before=network-pre.target shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target
ConditionPathExists=%s

[Service]
Type=oneshot
ExecStart=%s revert %s
TimeoutStartSec=120
`
