package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// forbiddenAt applies forbidden to a path and to its location after links in its folders.
func (w *work) forbiddenAt(file string) (string, error) {
	if why := forbidden(file); why != "" {
		return why, nil
	}
	at, err := w.tree.Resolve(file, false)
	var link *tree.UnsafeLink
	if errors.As(err, &link) {
		return w.unsafe(link), nil
	}
	if err != nil {
		return "", err
	}
	return forbidden("/" + at), nil
}

// forbidden says why Slipway does not make a file at a path; empty if it does.
func forbidden(file string) string {
	if !path.IsAbs(file) || path.Clean(file) != file || file == "/" || strings.ContainsRune(file, 0) {
		return fmt.Sprintf("%q is not a plain absolute path. Write it from the root, without \"..\", \"//\" and a \"/\" at its end", file)
	}
	for _, folder := range []string{"/proc", "/sys", "/dev"} {
		if below(file, folder) {
			return fmt.Sprintf("files below %s belong to the kernel; use system.sysctl or a udev rule", folder)
		}
	}
	if below(file, inside.Folder) {
		return inside.Folder + " is where Slipway keeps its own state"
	}
	if below(file, tlsFolder) {
		return tlsFolder + " is where Slipway puts certificates; use system.certificates"
	}
	if slices.Contains([]string{"/etc/shadow", "/etc/gshadow", "/etc/passwd", "/etc/group"}, file) {
		return file + " holds the accounts; use system.users"
	}
	return ""
}

func below(file, folder string) bool { return file == folder || strings.HasPrefix(file, folder+"/") }

// unsafe says why a link is not followed, including the account's name.
func (w *work) unsafe(link *tree.UnsafeLink) string {
	a, err := w.names()
	if err != nil {
		return link.Error()
	}
	return link.Text(a.users.text(link.UID))
}
