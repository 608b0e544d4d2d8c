package config

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

const dpkgStatus = "/var/lib/dpkg/status"

// maxStatus bounds dpkg's status, in bytes.
const maxStatus = 256 << 20

// brought says whether a file of settings is as a package brought it. Where nobody can
// tell it is not.
func (w *work) brought(file string) bool {
	if w.tree.Exists(dpkgStatus) {
		return w.isConffile(file)
	}
	if !w.tree.Exists("/usr/lib/sysimage/rpm") && !w.tree.Exists("/var/lib/rpm") {
		return false
	}
	out, err := w.h.Exec(w.ctx, inside.Command{Path: "rpm", Args: []string{"-qf", "--", file}})
	if err != nil || out.Code != 0 {
		return false
	}
	// rpm -V prints a line such as "S.5....T.  c /etc/x" for a file that was changed.
	out, err = w.h.Exec(w.ctx, inside.Command{Path: "rpm", Args: []string{"-Vf", "--", file}})
	return err == nil && !slices.ContainsFunc(strings.Split(string(out.Out), "\n"), func(line string) bool {
		return strings.HasSuffix(line, " "+file) && len(line) > 2 && line[2] == '5'
	})
}

// besideIt is what dpkg adds to the name of the file of a package that it did not put over one
// that was there.
const besideIt = ".dpkg-dist"

// leftToPackage says whether a file that leaves the design, and that was not there before it, is
// that of a package by now: it stays, or comes out of the one that dpkg has put beside it.
func (w *work) leftToPackage(file string, before place) (bool, error) {
	if before.Kind != tree.Nothing {
		return false, nil
	}
	if w.brought(file) {
		return true, nil
	}
	if !w.isConffileAs(file, file+besideIt) {
		return false, nil
	}
	e, err := w.tree.Look(file + besideIt)
	if err != nil {
		return false, err
	}
	text, err := w.tree.Read(file+besideIt, maxConfig)
	if err == nil {
		err = w.putFile(file, text, e.Mode, e.UID, e.GID)
	}
	if err == nil {
		err = w.tree.Remove(file + besideIt)
	}
	return true, err
}

// dpkgStatus is what dpkg knows of all packages.
func (w *work) dpkgStatus() (status []byte, err error) {
	if w.status == nil {
		if status, err = w.tree.Read(dpkgStatus, maxStatus); err == nil {
			w.status = status
		}
	}
	return w.status, err
}

// isConffile says whether dpkg's status has a file with the digest that it has.
func (w *work) isConffile(file string) bool { return w.isConffileAs(file, file) }

// isConffileAs says whether dpkg's status has a file with the digest of the one at a path.
func (w *work) isConffileAs(file, at string) bool {
	status, err := w.dpkgStatus()
	if err != nil {
		return false
	}
	_, after, found := bytes.Cut(status, []byte("\n "+file+" "))
	if e, err := w.tree.Look(at); !found || err != nil || e.Kind != tree.File {
		return false
	}
	digest, _, _ := bytes.Cut(after, []byte("\n"))
	digest, _, _ = bytes.Cut(digest, []byte(" "))
	text, err := w.tree.Read(at, maxConfig)
	sum := md5.Sum(text) // dpkg's own digest of it
	return err == nil && hex.EncodeToString(sum[:]) == string(digest)
}
