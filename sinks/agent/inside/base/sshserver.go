package base

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	unit, err := j.activeOf("ssh.service", "sshd.service") // one may be an alias of the other
	if err != nil {
		return err
	}
	if unit != "" {
		before := j.listeners()
		if err := j.run(inside.Command{Path: "systemctl", Args: []string{"reload", unit}}); err != nil {
			return failed("reload %s: %v. Look at it with `systemctl status %s`", unit, err, unit)
		}
		j.awaitListener(before)
	}
	return j.note(item.KindSSH, made)
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
func (j *job) awaitListener(before map[string]bool) {
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for end := time.Now().Add(reopens); len(before) > 0 && time.Now().Before(end); {
		for socket := range j.listeners() {
			if !before[socket] {
				return
			}
		}
		select {
		case <-every.C:
		case <-j.ctx.Done():
			return
		}
	}
}

// listeners are the sockets of the kernel that listen at port 22; none where they cannot be read.
func (j *job) listeners() map[string]bool { return j.listening("/proc/net", ":0016") }

// listening are the sockets of a network that listen at a port, ":" and four hexadecimal digits; at
// any with "" (proc_net(5)).
func (j *job) listening(network, port string) map[string]bool {
	const listening, fields = "0A", 10
	all := map[string]bool{}
	for _, file := range []string{network + "/tcp", network + "/tcp6"} {
		text, _, err := j.read(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) >= fields && words[3] == listening && strings.HasSuffix(words[1], port) {
				all[words[fields-1]] = true
			}
		}
	}
	return all
}

// otherServers are the SSH servers that a reload of the unit does not reach, each as its process and
// when that started: "4711 1234", in clock ticks since the boot. A server is a process sshd of this
// system that listens. One below another sshd is a session, which listens for what it forwards.
func (j *job) otherServers() ([]string, error) {
	if !j.h.Live {
		return nil, nil
	}
	processes, err := os.ReadDir(j.h.Path("/proc"))
	if err != nil {
		return nil, failed("look for SSH servers: %v", err)
	}
	var all []string
	for _, p := range processes {
		if parent, start, is := j.processSSH(p.Name()); is && j.listens(p.Name()) {
			if _, _, isSession := j.processSSH(parent); !isSession {
				all = append(all, p.Name()+" "+start)
			}
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	unit, err := j.activeOf("ssh.service", "sshd.service")
	if err != nil || unit == "" {
		return all, err
	}
	out, err := j.h.Exec(j.ctx, inside.Command{Path: "systemctl", Args: []string{"show", "--property=MainPID", unit}})
	if err != nil {
		return nil, failed("%v", err)
	}
	own := strings.TrimPrefix(strings.TrimSpace(string(out.Out)), "MainPID=") + " "
	return slices.DeleteFunc(all, func(server string) bool { return strings.HasPrefix(server, own) }), nil
}

// processSSH is a process sshd of this system, not of a container on it: its parent, and when it
// started (proc_pid_stat(5)).
func (j *job) processSSH(pid string) (parent, start string, is bool) {
	folder := "/proc/" + pid
	name, _, err := j.read(folder + "/comm")
	if err != nil || strings.TrimSpace(string(name)) != "sshd" {
		return "", "", false // another program, or it has ended
	}
	root, err := os.Stat(j.h.Path(folder + "/root"))
	own, err2 := os.Stat(j.h.Path("/"))
	if err != nil || err2 != nil || !os.SameFile(root, own) {
		return "", "", false
	}
	const ppid, starttime = 4 - 3, 22 - 3 // the first behind the name is field 3
	stat, _, err := j.read(folder + "/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if err != nil || len(fields) <= starttime {
		return "", "", false
	}
	return fields[ppid], fields[starttime], true
}

// listens says whether a process has a socket that listens for connections.
func (j *job) listens(pid string) bool {
	sockets := j.listening("/proc/"+pid+"/net", "")
	folder := j.h.Path("/proc/" + pid + "/fd")
	files, _ := os.ReadDir(folder) // none: it has ended
	return slices.ContainsFunc(files, func(f os.DirEntry) bool {
		to, _ := os.Readlink(filepath.Join(folder, f.Name()))
		inode, isSocket := strings.CutPrefix(to, "socket:[")
		return isSocket && sockets[strings.TrimSuffix(inode, "]")]
	})
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
