package base

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// The server proves itself by certificates of its host keys, which are in files that a file of settings of
// ours names. A server leaves out a certificate that it cannot read or that belongs to none of its keys, and
// shows the plain key then, so none of this can keep it from starting. Each certificate has a file of its own
// name: the settings change from one to the next in one write.
const (
	sshHostSettings = "/etc/ssh/sshd_config.d/61-slipway-host.conf"
	sshHostFiles    = "/etc/ssh/slipway-host"
	sshHostHead     = "# Slipway's, from the design.\n"
	sshHostWord     = "HostCertificate "
)

// maxCertificate bounds the text of a certificate, in bytes: one of RSA of 16384 bits has less than 4 KiB.
const maxCertificate = 8 << 10

// madeHost is what we made of the certificates that the server shows.
type madeHost struct {
	Reload bool `json:"reload,omitempty"` // the server has not read what we wrote
}

// hostKinds are the kinds of certificates, and how their files begin.
var hostKinds = map[string]string{
	"ssh-ed25519-cert-v01@openssh.com":         "ed25519",
	"ecdsa-sha2-nistp256-cert-v01@openssh.com": "ecdsa-256",
	"ecdsa-sha2-nistp384-cert-v01@openssh.com": "ecdsa-384",
	"ecdsa-sha2-nistp521-cert-v01@openssh.com": "ecdsa-521",
	"ssh-rsa-cert-v01@openssh.com":             "rsa",
}

// hostFiles are the files of certificates, by path; the error says which is none.
func hostFiles(certificates []string) (map[string]string, error) {
	files, kinds := map[string]string{}, map[string]bool{}
	for _, line := range certificates {
		kind, _, _ := strings.Cut(line, " ")
		name := hostKinds[kind]
		if name == "" || kinds[kind] || len(line) > maxCertificate || parseKey(line) == "" || printable(line) != line {
			return nil, refused("%.60q is not the certificate of a host key, or the second one of its kind", line)
		}
		kinds[kind] = true
		sum := sha256.Sum256([]byte(line))
		files[fmt.Sprintf("%s/%s-%x.pub", sshHostFiles, name, sum[:6])] = line
	}
	if len(files) == 0 {
		return nil, refused("no certificate was signed for this system")
	}
	return files, nil
}

// hostText is the file of settings that names files of certificates.
func hostText(files []string) string {
	text := sshHostHead
	for _, file := range slices.Sorted(slices.Values(files)) {
		text += sshHostWord + file + "\n"
	}
	return text
}

// namedByHostText are the files that settings name; false where they are not as we write them.
func namedByHostText(text string) (files []string, ours bool) {
	for line := range strings.Lines(strings.TrimPrefix(text, sshHostHead)) {
		files = append(files, strings.TrimSuffix(strings.TrimPrefix(line, sshHostWord), "\n"))
	}
	outside := func(file string) bool { return filepath.Dir(file) != sshHostFiles }
	return files, len(files) > 0 && text == hostText(files) && !slices.ContainsFunc(files, outside)
}

// cannotSSHHost says why the server cannot show our certificates.
func (j *job) cannotSSHHost() (string, error) {
	if cannot, err := j.cannotSet(sshHostSettings); cannot != "" || err != nil {
		return cannot, err
	}
	return j.setElsewhere(sshMain, 0, "hostcertificate")
}

func (j *job) seeSSHHost(seen *inside.Seen) {
	const field = item.KindSSHHost + ".certificates"
	cannot, err := j.cannotSSHHost()
	text, there, unread := j.read(sshHostSettings)
	if err == nil {
		err = unread
	}
	switch {
	case err != nil:
		seen.Unread[item.KindSSHHost] = err.Error()
		return
	case cannot != "":
		seen.Cannot[field] = printable(cannot)
		return
	case !there:
		return
	}
	var made madeHost
	j.entry(item.KindSSHHost, nil, &made)
	files, ours := namedByHostText(string(text))
	switch {
	case !ours:
		seen.Have[field] = "changed by hand"
		return
	case j.rootsHost(files) != nil:
		seen.Have[field] = printable(j.rootsHost(files).Error())
		return
	case made.Reload && j.h.Live:
		seen.Have[field] = "the SSH server must be reloaded"
		return
	}
	if j.h.Live {
		switch shown, err := j.shownByHost(files, ""); {
		case err != nil:
			seen.Unread[item.KindSSHHost] = err.Error()
			return
		case shown != "":
			seen.Have[field] = printable(shown)
			return
		}
	}
	var certificates []string
	for _, file := range files {
		line, _, err := j.read(file)
		if err != nil {
			seen.Unread[item.KindSSHHost] = err.Error()
			return
		}
		certificates = append(certificates, strings.TrimSuffix(string(line[:min(len(line), maxCertificate)]), "\n"))
	}
	seen.Have[field] = item.HostDigest(certificates)
}

// rootsHost refuses files that others than root could change.
func (j *job) rootsHost(files []string) error {
	return j.belongToRoot(append([]string{sshHostFiles, sshHostSettings}, files...))
}

// shownByHost says why sshd does not show the certificates in the files, empty if it does; with a text, as if it
// were read before all files.
func (j *job) shownByHost(files []string, before string) (string, error) {
	out, err := j.askSSHD("root", before)
	if err != nil {
		return "", err
	}
	var named []string
	for line := range strings.Lines(string(out.Out)) {
		if word, file, _ := strings.Cut(strings.TrimSpace(line), " "); word == "hostcertificate" {
			named = append(named, file)
		}
	}
	for _, file := range files {
		if !slices.Contains(named, file) {
			return "not in effect: sshd does not read " + sshHostSettings, nil
		}
		for line := range strings.Lines(string(out.Err)) {
			if strings.Contains(line, file) {
				return "not in effect: sshd says " + last([]byte(line)), nil
			}
		}
	}
	return "", nil
}

func (j *job) setSSHHost(want item.SSHHost) error {
	all, err := hostFiles(want.Certificates)
	if err != nil {
		return err
	}
	cannot, err := j.cannotSSHHost()
	switch {
	case err != nil:
		return failed("%v", err)
	case cannot != "":
		return lacking(cannot)
	}
	if j.h.Live {
		if _, err := j.askSSHD("root", ""); err != nil {
			return failed("%v. Correct that first: Slipway changes nothing of an SSH server that could not start", err)
		}
	}
	if err := j.take(item.KindSSHHost, nil); err != nil {
		return err
	}
	if _, err := j.folder(sshHostFiles); err != nil {
		return err
	}
	var files []string
	for file, line := range all {
		files = append(files, file)
		if err := j.put(file, []byte(line+"\n"), 0o644); err != nil {
			return err
		}
	}
	if err := j.rootsHost(files); err != nil {
		return err
	}
	if err := j.useSSHHost(files); err != nil {
		return err
	}
	return j.clearHostFiles(files)
}

// useSSHHost puts the settings in place and has the server read them. They are taken back if sshd does not show the
// certificates, or if the server does not run after that.
func (j *job) useSSHHost(files []string) error {
	text := hostText(files)
	before, there, err := j.read(sshHostSettings)
	if err != nil {
		return failed("%v", err)
	}
	var made madeHost
	j.entry(item.KindSSHHost, nil, &made)
	if string(before) == text && !made.Reload {
		return nil
	}
	if err := j.provenHost(files, text); err != nil {
		return err
	}
	if err := j.note(item.KindSSHHost, madeHost{Reload: true}); err != nil {
		return err
	}
	if err := j.put(sshHostSettings, []byte(text), 0o644); err != nil {
		return err
	}
	back := func(err error) error {
		if there && string(before) != text {
			return worst(j.put(sshHostSettings, before, 0o644), err)
		}
		return worst(j.delete(sshHostSettings), err)
	}
	if err := j.provenHost(files, ""); err != nil {
		return back(err)
	}
	if !j.h.Live {
		return j.note(item.KindSSHHost, madeHost{})
	}
	unit, err := j.reloadServer()
	if unit != "" {
		if up, err2 := j.activeOf(unit); err2 != nil || up != "" {
			err = worst(err, err2)
		} else {
			err = back(failed("%s does not run after it was reloaded: Slipway set its settings back and started it. Look at it with `systemctl status %s`", unit, unit))
			return worst(j.service(unit), err)
		}
	}
	if err != nil {
		return err
	}
	return j.note(item.KindSSHHost, madeHost{})
}

// provenHost asks sshd whether it shows the certificates.
func (j *job) provenHost(files []string, text string) error {
	if !j.h.Live {
		return nil
	}
	switch shown, err := j.shownByHost(files, text); {
	case err != nil:
		return failed("with host certificates, %v. The settings are as they were", err)
	case shown != "":
		return failed("the host certificates are %s. The settings are as they were", shown)
	}
	return nil
}

// clearHostFiles removes the files of certificates that are not named any longer.
func (j *job) clearHostFiles(keep []string) error {
	all, err := j.list(sshHostFiles, "")
	if err != nil {
		return failed("%v", err)
	}
	for _, file := range all {
		if !slices.Contains(keep, file) {
			if err := j.delete(file); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *job) removeSSHHost() error {
	var made madeHost
	if !j.entry(item.KindSSHHost, nil, &made) {
		return nil
	}
	if j.exists(sshHostSettings) {
		made.Reload = true
		if err := j.note(item.KindSSHHost, made); err != nil {
			return err
		}
		if err := j.delete(sshHostSettings); err != nil {
			return err
		}
	}
	if made.Reload && j.h.Live && j.exists(sshServer) {
		if _, err := j.askSSHD("root", ""); err != nil {
			return failed("%v. The SSH server was not reloaded", err)
		}
		if _, err := j.reloadServer(); err != nil {
			return err
		}
	}
	if err := j.clearHostFiles(nil); err != nil {
		return err
	}
	if j.exists(sshHostFiles) {
		if err := j.deleteEmpty(sshHostFiles); err != nil {
			return err
		}
	}
	return j.drop(item.KindSSHHost)
}
