// Package systemd asks the service manager of a running system about its units, over the system's message bus or else
// over systemctl(1)'s socket, because starting a program for each question costs far more than the answer. Without
// either it runs systemctl.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// bus is the socket of the system's message bus, over which systemd answers under its name there. For each connection
// to socket, where it answers root directly, systemd prepares all that it could ever say, which takes it more than two
// milliseconds of processor time. On the bus it has done that once.
const (
	bus     = "/run/dbus/system_bus_socket"
	busName = "org.freedesktop.systemd1"
	socket  = "/run/systemd/private"
)

// patience bounds one question, busPatience one on the bus: systemd may answer directly where the bus does not.
const (
	patience    = 20 * time.Second
	busPatience = 2 * time.Second
)

// Show returns properties of units, in the order of names, in the format of `systemctl show`: "yes" and "no" for
// booleans. Properties that a unit does not have are left out. A missing unit has a LoadState that says so.
func Show(ctx context.Context, h *inside.Host, names []string, properties ...string) ([]map[string]string, error) {
	var calls []message
	for _, name := range names {
		for _, p := range properties {
			calls = append(calls, message{path: unitPath(name), face: "org.freedesktop.DBus.Properties", member: "Get", signature: "ss", body: texts(face(name, p), p)})
		}
	}
	answers, err := ask(ctx, h, calls)
	if errors.Is(err, fs.ErrNotExist) {
		return showByProgram(ctx, h, names, properties)
	}
	if err != nil {
		return nil, err
	}
	all := make([]map[string]string, len(names))
	for i := range names {
		all[i] = map[string]string{}
		for j, p := range properties {
			if value, ok := answers[i*len(properties)+j].value(); ok {
				all[i][p] = value
			}
		}
	}
	return all, nil
}

// Failed returns the names of the failed units.
func Failed(ctx context.Context, h *inside.Host) ([]string, error) {
	list := message{path: "/org/freedesktop/systemd1", face: busName + ".Manager", member: "ListUnitsFiltered", signature: "as", body: list("failed")}
	answers, err := ask(ctx, h, []message{list})
	if errors.Is(err, fs.ErrNotExist) {
		return failedByProgram(ctx, h)
	}
	if err != nil {
		return nil, err
	}
	return answers[0].units()
}

// ask makes calls and returns the answers in their order: over the bus, or else directly. It returns fs.ErrNotExist if
// nothing answers at either.
func ask(ctx context.Context, h *inside.Host, calls []message) ([]message, error) {
	answers, err := askBus(ctx, h, calls)
	if err == nil {
		return answers, nil
	}
	c, err := dial(ctx, h.Path(socket), patience)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.exchange(calls)
}

// askBus makes calls over the bus. An answer of the bus in place of systemd's is an error.
func askBus(ctx context.Context, h *inside.Host, calls []message) ([]message, error) {
	c, err := dial(ctx, h.Path(bus), busPatience)
	if err != nil {
		return nil, err
	}
	defer c.close()
	all := []message{{to: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", face: "org.freedesktop.DBus", member: "Hello"}}
	for _, m := range calls {
		m.to = busName
		all = append(all, m)
	}
	answers, err := c.exchange(all)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.kind == errorType && !slices.Contains(lacking, a.fault) {
			return nil, fmt.Errorf("the bus answers %s", a.fault)
		}
	}
	return answers[1:], nil
}

// lacking are the errors that systemd itself answers with where a unit does not have a property, or cannot exist.
var lacking = []string{
	"org.freedesktop.DBus.Error.UnknownProperty", "org.freedesktop.DBus.Error.UnknownInterface", "org.freedesktop.DBus.Error.UnknownObject",
	"org.freedesktop.DBus.Error.InvalidArgs",
}

// face is the interface of a property (org.freedesktop.systemd1(5)): that of all units, or that of the unit's type.
func face(name, property string) string {
	const all = busName + "."
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
