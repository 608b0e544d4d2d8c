package base

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// reloadSSH has the server read its settings if it has not read what we wrote. Where none runs
// all the time, each connection reads them.
func (j *job) reloadSSH() error {
	var made madeSSH
	if !j.entry(item.KindSSH, nil, &made) || !made.Reload {
		return nil
	}
	made.Reload = false
	if !j.h.Live {
		return j.note(item.KindSSH, made)
	}
	if _, err := j.reloadServer(); err != nil {
		return err
	}
	return j.note(item.KindSSH, made)
}

// reloadServer has the server that runs read its settings, and returns its unit; empty where none runs all
// the time.
func (j *job) reloadServer() (unit string, err error) {
	unit, err = j.activeOf("ssh.service", "sshd.service") // one may be an alias of the other
	if err != nil || unit == "" {
		return "", err
	}
	pid, err := j.mainPID(unit)
	if err != nil {
		return unit, err
	}
	before, _ := j.listeners(pid)
	if err := j.run(inside.Command{Path: "systemctl", Args: []string{"reload", unit}}); err != nil {
		return unit, failed("reload %s: %v. Look at it with `systemctl status %s`", unit, err, unit)
	}
	j.awaitListener(pid, before)
	return unit, nil
}

// activeOf is the first unit that is active; empty for none.
func (j *job) activeOf(units ...string) (string, error) {
	for _, unit := range units {
		out, err := j.h.Exec(j.ctx, inside.Command{Path: "systemctl", Args: []string{"is-active", "--quiet", unit}})
		if err != nil {
			return "", failed("%v", err)
		}
		if out.Code == 0 {
			return unit, nil
		}
	}
	return "", nil
}

// reopens bounds how long a server that is reloaded takes to open its port again.
const reopens = 3 * time.Second

// awaitListener waits until the server has opened its port again: sshd starts itself anew, and
// refuses connections for a moment. Where it takes over the socket that it had, the time passes.
func (j *job) awaitListener(pid string, before []string) {
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for end := time.Now().Add(reopens); len(before) > 0 && time.Now().Before(end); {
		now, _ := j.listeners(pid)
		if slices.ContainsFunc(now, func(socket string) bool { return !slices.Contains(before, socket) }) {
			return
		}
		select {
		case <-every.C:
		case <-j.ctx.Done():
			return
		}
	}
}

// mainPID is the main process of a unit; "0" for none.
func (j *job) mainPID(unit string) (string, error) {
	out, err := j.h.Exec(j.ctx, inside.Command{Path: "systemctl", Args: []string{"show", "--property=MainPID", unit}})
	if err != nil {
		return "", failed("%v", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out.Out)), "MainPID="), nil
}

// servers are processes, each with when it started in clock ticks since the boot: "4711 1234".
type servers struct {
	others []string // SSH servers that a reload of the unit does not reach
	unread []string // processes that listen, as far as is known, and may be SSH servers
}

// otherServers looks for SSH servers beside that of the unit. A server is a process sshd of this system that
// listens. One below another sshd is a session, which listens for what it forwards.
func (j *job) otherServers() (all servers, err error) {
	if !j.h.Live {
		return servers{}, nil
	}
	processes, err := os.ReadDir(j.h.Path("/proc"))
	if err != nil {
		return servers{}, failed("look for SSH servers: %v", err)
	}
	for _, p := range processes {
		it, err := j.processSSH(p.Name())
		if !it.isSSH && err == nil {
			continue
		}
		sockets, err2 := j.listeners(p.Name())
		parent, _ := j.processSSH(it.parent)
		switch as := p.Name() + " " + it.start; {
		case it.isSSH && len(sockets) > 0 && !parent.isSSH:
			all.others = append(all.others, as)
		case !it.isSSH && (len(sockets) > 0 || err2 != nil):
			all.unread = append(all.unread, as)
		}
	}
	if len(all.others) == 0 {
		return all, nil
	}
	unit, err := j.activeOf("ssh.service", "sshd.service")
	if err != nil || unit == "" {
		return all, err
	}
	own, err := j.mainPID(unit)
	if err != nil {
		return servers{}, err
	}
	all.others = slices.DeleteFunc(all.others, func(server string) bool { return strings.HasPrefix(server, own+" ") })
	return all, nil
}

// process is a process of this system.
type process struct {
	isSSH         bool
	parent, start string // start is in clock ticks since the boot
}

// processSSH says whether a process is sshd, and not one of a container. The program counts, not the name, which is
// that of the link it was started by; a copy of sshd counts by its name. The error says why that is not known.
func (j *job) processSSH(pid string) (process, error) {
	folder := "/proc/" + pid
	stat, _, err := j.read(folder + "/stat")
	const ppid, starttime = 4 - 3, 22 - 3 // the first behind the name is field 3 (proc_pid_stat(5))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if err != nil || len(fields) <= starttime {
		return process{}, nil // no process, or it has ended
	}
	it := process{parent: fields[ppid], start: fields[starttime]}
	root, err := os.Stat(j.h.Path(folder + "/root"))
	own, err2 := os.Stat(j.h.Path("/"))
	if err == nil && err2 == nil && !os.SameFile(root, own) {
		return it, nil
	}
	program, err3 := os.Readlink(j.h.Path(folder + "/exe"))
	server, _ := filepath.EvalSymlinks(j.h.Path(sshServer))
	name, _, _ := j.read(folder + "/comm")
	it.isSSH = strings.TrimSuffix(program, " (deleted)") == server && server != "" || strings.TrimSpace(string(name)) == "sshd"
	return it, unknownOf(err, err2, err3)
}

// unknownOf is the first error that does not say that a process has ended, or has no program, as a thread of the kernel.
func unknownOf(errs ...error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// listeners are the sockets at which a process listens for connections, by their inodes (proc_net(5)). The error says
// why its sockets are not known.
func (j *job) listeners(pid string) (all []string, err error) {
	const listening, fields = "0A", 10
	folder := "/proc/" + pid
	listen := map[string]bool{}
	for _, file := range []string{folder + "/net/tcp", folder + "/net/tcp6"} {
		text, _, _ := j.read(file) // none: it has ended
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) >= fields && words[3] == listening {
				listen["socket:["+words[fields-1]+"]"] = true
			}
		}
	}
	at := j.h.Path(folder + "/fd")
	files, err := os.ReadDir(at)
	for _, f := range files {
		if to, _ := os.Readlink(filepath.Join(at, f.Name())); listen[to] {
			all = append(all, to)
		}
	}
	return all, unknownOf(err)
}

// processesOf names the processes of servers, for people.
func processesOf(servers []string) string {
	var all []string
	for _, s := range servers {
		pid, _, _ := strings.Cut(s, " ")
		all = append(all, pid)
	}
	return strings.Join(all, ", ")
}
