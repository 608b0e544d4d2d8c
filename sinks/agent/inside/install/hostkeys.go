package install

import (
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// keysWithin bounds making the keys of an SSH server. An RSA key needs a random search.
const keysWithin = 5 * time.Minute

// keys makes the SSH server's keys on the machine. Only their public halves leave it.
func (w *work) keys() error {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	if !t.Exists("/usr/sbin/sshd") || !t.Exists("/usr/bin/ssh-keygen") {
		return refused("the image has no SSH server, so Slipway could not see whether the system runs: add the package openssh-server to it, or design it")
	}
	w.h.Tell("making the keys of the SSH server")
	o, err := w.target.Exec(w.ctx, inside.Command{Path: "ssh-keygen", Args: []string{"-A"}, Timeout: keysWithin})
	if err != nil {
		return err
	}
	if o.Code != 0 {
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("ssh-keygen -A ended with %d in the new system: %s", o.Code, o.LastLines(3))}
	}
	err = w.readKeys()
	if err == nil && w.h.TellHostKeys != nil {
		w.h.TellHostKeys(w.is.HostKeys)
	}
	return err
}

// maxKey bounds the public half of a key, in bytes.
const maxKey = 16 << 10

func (w *work) readKeys() error {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	files, err := hostKeyFiles(t)
	if err != nil {
		return err
	}
	w.is.HostKeys = nil
	for _, file := range files {
		if !strings.HasSuffix(file, ".pub") {
			continue
		}
		text, err := t.Read(file, maxKey)
		if err != nil {
			return err
		}
		if words := strings.Fields(string(text)); len(words) >= 2 {
			w.is.HostKeys = append(w.is.HostKeys, words[0]+" "+words[1])
		}
	}
	if len(w.is.HostKeys) == 0 {
		return &wire.Error{Class: wire.Failed, Text: "the new system has no keys of an SSH server after they were made"}
	}
	return nil
}

// hostKeyFiles are the key files of an SSH server, private and public.
func hostKeyFiles(t *tree.Tree) (files []string, err error) {
	if !t.Exists("/etc/ssh") {
		return nil, nil
	}
	names, err := t.Names("/etc/ssh")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if strings.HasPrefix(n, "ssh_host_") {
			files = append(files, "/etc/ssh/"+n)
		}
	}
	return files, nil
}
