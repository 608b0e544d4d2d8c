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

// brought reports whether a settings file is as its package installed it. If that is unknown, it returns false.
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

// besideIt is the suffix that dpkg adds to a package's file that it did not put over an existing one.
const besideIt = ".dpkg-dist"

// leftToPackage reports whether a file that leaves the design, and did not exist before it, now belongs to a
// package. Then the file stays, or the one that dpkg put beside it takes its place.
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

// dpkgStatus returns dpkg's status of all packages.
func (w *work) dpkgStatus() (status []byte, err error) {
	if w.status == nil {
		if status, err = w.tree.Read(dpkgStatus, maxStatus); err == nil {
			w.status = status
		}
	}
	return w.status, err
}

// isConffile reports whether dpkg's status lists a file with its current digest.
func (w *work) isConffile(file string) bool { return w.isConffileAs(file, file) }

// isConffileAs reports whether dpkg's status lists a file with the digest of the file at a path.
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
	sum := md5.Sum(text) // dpkg uses MD5
	return err == nil && hex.EncodeToString(sum[:]) == string(digest)
}
