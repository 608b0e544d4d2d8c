package config

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// isSudoers reports whether sudo reads a file. sudo skips names with a "." or a trailing "~".
func isSudoers(file string) bool {
	name := path.Base(file)
	return file == "/etc/sudoers" || path.Dir(file) == "/etc/sudoers.d" && !strings.Contains(name, ".") && !strings.HasSuffix(name, "~")
}

// isSSH reports whether the SSH server reads a file.
func isSSH(file string) bool {
	return file == "/etc/ssh/sshd_config" || path.Dir(file) == "/etc/ssh/sshd_config.d" && strings.HasSuffix(file, ".conf")
}

// placesOf returns the path of a file and its location after links in its folders.
func (w *work) placesOf(file string) ([]string, error) {
	at, err := w.tree.Resolve(file, false)
	return []string{file, "/" + at}, err
}

// guardOwner refuses an owner or mode with which sudo ignores a file's rules.
func (w *work) guardOwner(file string, mode uint32, uid int) error {
	places, err := w.placesOf(file)
	if err != nil || !slices.ContainsFunc(places, isSudoers) || uid == 0 && mode&0o022 == 0 {
		return err
	}
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s must be root's, and nobody else may write it: sudo refuses it otherwise, and nobody could use sudo. "+
		"Correct its owner and mode in the design", file)}
}

// guardContent refuses a content that would keep everyone from becoming root or logging in: Slipway could not
// restore the file then. For a secret it hides the programs' messages, because they may quote the secret.
func (w *work) guardContent(file string, content []byte, isSecret bool) error {
	told := func(said string) string {
		if isSecret {
			return item.IsSecret
		}
		return said
	}
	places, err := w.placesOf(file)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(places, isSudoers) && w.has("/usr/sbin/visudo", "/sbin/visudo") {
		if err := inside.CheckSudoers(w.ctx, w.h, content); err != nil {
			return w.refusedBy(file, "visudo", "could use sudo", told(err.Error()))
		}
	}
	if slices.ContainsFunc(places, isSSH) && w.has(sshServer) {
		if said, ok := w.sshd(content); !ok {
			if _, ok := w.sshd(nil); ok { // otherwise sshd accepts no settings here at all
				return w.refusedBy(file, "sshd", "could log in", told(said))
			}
		}
	}
	return nil
}

// maxGuarded bounds a file whose content is checked, in bytes.
const maxGuarded = 1 << 20

// guardFetched is guardContent for a content from a reader. It returns the reader to use afterwards.
func (w *work) guardFetched(file string, content io.Reader, size int64) (io.Reader, error) {
	places, err := w.placesOf(file)
	if err != nil || !slices.ContainsFunc(places, isSudoers) && !slices.ContainsFunc(places, isSSH) {
		return content, err
	}
	if size > maxGuarded {
		return nil, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s has %d bytes, and more than %d are not checked before they are put there. Correct the file in the design", file, size, maxGuarded)}
	}
	text, err := io.ReadAll(io.LimitReader(content, size+1))
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(text), w.guardContent(file, text, false)
}

func (w *work) refusedBy(file, program, what, said string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s does not accept the designed content of %s: %s. With this file nobody %s, "+
		"so it is as it was. Correct the file in the design", program, file, said, what)}
}

const sshServer = "/usr/sbin/sshd"

// sshd reports whether the SSH server accepts a settings file, and what it said otherwise.
func (w *work) sshd(settings []byte) (said string, ok bool) {
	o, err := w.h.Exec(w.ctx, inside.Command{Path: sshServer, Args: []string{"-t", "-f", "/dev/stdin"}, Stdin: settings})
	if err != nil {
		return err.Error(), false
	}
	return o.LastLines(5), o.Code == 0
}

// has reports whether the system has a program at one of the paths.
func (w *work) has(places ...string) bool { return slices.ContainsFunc(places, w.tree.Exists) }
