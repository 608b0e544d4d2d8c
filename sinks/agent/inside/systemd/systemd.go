// Package systemd asks the service manager of a running system about its units. It uses systemctl(1)'s socket,
// because starting a program for each question costs far more than the answer. Without that socket it runs
// systemctl.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// socket is where systemd answers root directly, without a bus.
const socket = "/run/systemd/private"

// patience bounds one question.
const patience = 20 * time.Second

// Show returns properties of units, in the order of names, in the format of `systemctl show`: "yes" and "no" for
// booleans. Properties that a unit does not have are left out. A missing unit has a LoadState that says so.
func Show(ctx context.Context, h *inside.Host, names []string, properties ...string) ([]map[string]string, error) {
	c, err := dial(ctx, h.Path(socket))
	if errors.Is(err, fs.ErrNotExist) {
		return showByProgram(ctx, h, names, properties)
	}
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, name := range names {
		for _, p := range properties {
			c.ask(message{path: unitPath(name), face: "org.freedesktop.DBus.Properties", member: "Get", signature: "ss", body: texts(face(name, p), p)})
		}
	}
	if err := c.send(); err != nil {
		return nil, err
	}
	all := make([]map[string]string, len(names))
	for i, name := range names {
		all[i] = map[string]string{}
		for _, p := range properties {
			r, err := c.answer()
			if err != nil {
				return nil, fmt.Errorf("ask systemd about %s: %w", name, err)
			}
			if value, ok := r.value(); ok {
				all[i][p] = value
			}
		}
	}
	return all, nil
}

// Failed returns the names of the failed units.
func Failed(ctx context.Context, h *inside.Host) ([]string, error) {
	c, err := dial(ctx, h.Path(socket))
	if errors.Is(err, fs.ErrNotExist) {
		return failedByProgram(ctx, h)
	}
	if err != nil {
		return nil, err
	}
	defer c.close()
	c.ask(message{path: "/org/freedesktop/systemd1", face: "org.freedesktop.systemd1.Manager", member: "ListUnitsFiltered", signature: "as", body: list("failed")})
	if err := c.send(); err != nil {
		return nil, err
	}
	r, err := c.answer()
	if err != nil {
		return nil, fmt.Errorf("ask systemd for the units that have failed: %w", err)
	}
	return r.units()
}

// face is the interface of a property (org.freedesktop.systemd1(5)): that of all units, or that of the unit's type.
func face(name, property string) string {
	const all = "org.freedesktop.systemd1."
	switch property {
	case "Type", "Result":
		kind := strings.TrimPrefix(path.Ext(name), ".")
		return all + strings.ToUpper(kind[:min(len(kind), 1)]) + kind[min(len(kind), 1):]
	}
	return all + "Unit"
}

// unitPath is the path of a unit's object: its name, with a leading digit and everything except letters and digits
// written as _HH.
func unitPath(name string) string {
	var b strings.Builder
	b.WriteString("/org/freedesktop/systemd1/unit/")
	for i := range len(name) {
		c := name[i]
		isDigit := c >= '0' && c <= '9'
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// showByProgram asks systemctl, which prints the properties unit by unit, separated by empty lines.
func showByProgram(ctx context.Context, h *inside.Host, names, properties []string) ([]map[string]string, error) {
	args := append([]string{"--no-pager", "--no-ask-password", "show", "--property=" + strings.Join(properties, ","), "--"}, names...)
	o, err := h.Exec(ctx, inside.Command{Path: "systemctl", Args: args, Timeout: patience, Env: []string{"SYSTEMD_COLORS=0"}})
	if err != nil {
		return nil, err
	}
	if o.Code != 0 {
		return nil, fmt.Errorf("systemctl show ended with %d: %s", o.Code, o.LastLines(3))
	}
	blocks := strings.Split(strings.TrimSpace(string(o.Out)), "\n\n")
	if len(blocks) != len(names) {
		return nil, fmt.Errorf("systemctl show reported %d units and not %d", len(blocks), len(names))
	}
	all := make([]map[string]string, len(names))
	for i, block := range blocks {
		all[i] = map[string]string{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			all[i][name] = value
		}
	}
	return all, nil
}

func failedByProgram(ctx context.Context, h *inside.Host) ([]string, error) {
	o, err := h.Exec(ctx, inside.Command{Path: "systemctl", Timeout: patience, Env: []string{"SYSTEMD_COLORS=0"},
		Args: []string{"list-units", "--state=failed", "--plain", "--no-legend", "--no-pager", "--full"}})
	if err != nil {
		return nil, err
	}
	if o.Code != 0 {
		return nil, fmt.Errorf("systemctl list-units ended with %d: %s", o.Code, o.LastLines(3))
	}
	var units []string
	for line := range strings.Lines(string(o.Out)) {
		if f := strings.Fields(line); len(f) > 0 {
			units = append(units, f[0])
		}
	}
	return units, nil
}
