package base

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/systemd"
)

// systemd-journal-upload(8) sends the journal to one receiver over HTTP.
const (
	uploadUnit = "systemd-journal-upload.service"
	uploadFile = "/etc/systemd/journal-upload.conf.d/zz-slipway.conf" // read last
	uploadUser = "/etc/systemd/system/" + uploadUnit                  // that of the administrator, or a mask
	uploadMore = uploadUser + ".d/slipway.conf"
	uploadLink = "/etc/systemd/system/multi-user.target.wants/" + uploadUnit
	noUpload   = "there is no systemd-journal-upload to forward the journal with: add the package systemd-journal-remote"
)

// uploadRetries keeps the service trying: by itself it gives up a few seconds after the
// receiver went away.
const uploadRetries = `# Slipway's, from the design.
[Unit]
StartLimitIntervalSec=0

[Service]
Restart=always
RestartSec=30
`

// madeUpload is what we made of the service, and how it was before.
type madeUpload struct {
	Enabled bool     `json:"enabled,omitempty"` // it was, before us
	Running bool     `json:"running,omitempty"` // so with this
	Folders []string `json:"folders,omitempty"` // those we made
	Restart bool     `json:"restart,omitempty"` // it has not read what we wrote
}

// isUpload says whether the journal's own program forwards to a receiver.
func isUpload(url string) bool {
	return strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://")
}

// splitReceivers are the receivers of rsyslog and the one of the journal's own program.
func splitReceivers(forward []string) (syslog []string, upload string, err error) {
	sorted := slices.Sorted(slices.Values(forward))
	for _, url := range slices.Compact(sorted) {
		switch {
		case !isUpload(url):
			syslog = append(syslog, url)
		case upload != "":
			return nil, "", refused("%.100s and %.100s: systemd-journal-upload forwards to one receiver only", upload, url)
		default:
			upload = url
		}
	}
	return syslog, upload, nil
}

// uploadSource is the unit that the package brings, or empty.
func (j *job) uploadSource() string {
	return j.first("/usr/lib/systemd/system/"+uploadUnit, "/lib/systemd/system/"+uploadUnit)
}

// uploadText is the settings file for a receiver. Files in the places where the program
// looks by itself are used: a site's own authorities, and a key that the receiver knows.
// Each setting is written, so that no other file weakens it.
func (j *job) uploadText(url string) (string, error) {
	r, err := parseReceiver(url)
	if err != nil {
		return "", refused("%v", err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# Slipway's, from the design.\n%s%s\n[Upload]\nURL=%s://%s\n", receiverMark, r.url, r.protocol, r.address())
	if r.protocol == "http" {
		return text.String(), nil
	}
	trusted := j.first("/etc/ssl/ca/trusted.pem", "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
	if trusted == "" {
		return "", lacking(fmt.Sprintf("%s: there are no authorities to verify the receiver by: add the package ca-certificates", url))
	}
	key, certificate := "/etc/ssl/private/journal-upload.pem", "/etc/ssl/certs/journal-upload.pem"
	if !j.exists(key) || !j.exists(certificate) {
		key, certificate = "-", "-" // none
	}
	fmt.Fprintf(&text, "ServerKeyFile=%s\nServerCertificateFile=%s\nTrustedCertificateFile=%s\n", key, certificate, trusted)
	return text.String(), nil
}

// uploadOf is the receiver that a settings file of ours names.
func uploadOf(text string) string {
	for line := range strings.Lines(text) {
		if url, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), receiverMark); ok {
			return printable(url)
		}
	}
	return ""
}

// uploadDiffers says how the files of the service differ from what a receiver needs; it
// is empty where they do not.
func (j *job) uploadDiffers(fresh string) (how string, err error) {
	text, _, err := j.read(uploadFile)
	if err != nil {
		return "", err
	}
	more, _, err := j.read(uploadMore)
	switch {
	case err != nil:
		return "", err
	case string(text) != fresh:
		return uploadFile + " differs", nil
	case string(more) != uploadRetries:
		return uploadMore + " differs", nil
	case !j.isLinked(uploadLink):
		return uploadUnit + " is not enabled", nil
	}
	return "", nil
}

func (j *job) isLinked(path string) bool {
	at, err := j.place(path)
	return err == nil && isLink(at)
}

// uploads says whether the service runs. One that systemd starts again does: its
// receiver may be away.
func (j *job) uploads() (bool, error) {
	told, err := systemd.Show(j.ctx, j.h, []string{uploadUnit}, "ActiveState")
	if err != nil {
		return false, err
	}
	return slices.Contains([]string{"active", "activating", "reloading"}, told[0]["ActiveState"]), nil
}

// seeUpload is the receiver that the service is set to, and how it is not as designed.
func (j *job) seeUpload(made madeLogs) (url, how string, err error) {
	text, there, err := j.read(uploadFile)
	switch {
	case err != nil:
		return "", "", err
	case !there && made.Upload != nil:
		return "", uploadUnit + " must be set back", nil
	case !there:
		return "", "", nil
	}
	if url = uploadOf(string(text)); url == "" {
		return "", uploadFile + " was changed by hand", nil
	}
	fresh, err := j.uploadText(url)
	if err != nil {
		return url, err.Error(), nil
	}
	if how, err = j.uploadDiffers(fresh); how != "" || err != nil || !j.h.Live {
		return url, how, err
	}
	if made.Upload != nil && made.Upload.Restart {
		return url, uploadUnit + " must be restarted", nil
	}
	runs, err := j.uploads()
	if err == nil && !runs {
		how = uploadUnit + " does not run"
	}
	return url, how, err
}

// canUpload is the settings file for a receiver, or why the system cannot have it.
func (j *job) canUpload(url string) (string, error) {
	if j.uploadSource() == "" {
		return "", lacking(noUpload)
	}
	if j.uploadMasked() {
		return "", lacking(fmt.Sprintf("%s is masked: run `systemctl unmask %s`, or remove %s from the design", uploadUnit, uploadUnit, url))
	}
	return j.uploadText(url)
}

func (j *job) makeUpload(url string) error {
	if url == "" {
		return j.removeUpload()
	}
	fresh, err := j.canUpload(url)
	if err != nil {
		return err
	}
	how, err := j.uploadDiffers(fresh)
	if err != nil {
		return failed("%v", err)
	}
	if how != "" {
		if err := j.writeUpload(fresh); err != nil {
			return err
		}
	}
	return j.startUpload()
}

// writeUpload writes the files of the service, and the link that enables it.
func (j *job) writeUpload(fresh string) error {
	if err := j.take(item.KindLogs, nil); err != nil {
		return err
	}
	var made madeLogs
	j.entry(item.KindLogs, nil, &made)
	folders := []string{path.Dir(uploadFile), path.Dir(uploadMore), path.Dir(uploadLink)}
	if made.Upload == nil {
		made.Upload = &madeUpload{Enabled: j.isLinked(uploadLink)}
		if j.h.Live {
			var err error
			if made.Upload.Running, err = j.uploads(); err != nil {
				return failed("%v", err)
			}
		}
		for _, f := range folders {
			if !j.exists(f) {
				made.Upload.Folders = append(made.Upload.Folders, f)
			}
		}
	}
	made.Upload.Restart = true
	if err := j.note(item.KindLogs, made); err != nil {
		return err
	}
	for _, f := range folders {
		if _, err := j.folder(f); err != nil {
			return err
		}
	}
	if err := j.put(uploadFile, []byte(fresh), 0o644); err != nil {
		return err
	}
	if err := j.put(uploadMore, []byte(uploadRetries), 0o644); err != nil {
		return err
	}
	if j.isLinked(uploadLink) {
		return nil
	}
	return j.link(j.uploadSource(), uploadLink)
}

// startUpload has the service run with what we wrote.
func (j *job) startUpload() error {
	var made madeLogs
	j.entry(item.KindLogs, nil, &made)
	pending := made.Upload != nil && made.Upload.Restart
	if !pending {
		if !j.h.Live {
			return nil
		}
		if runs, err := j.uploads(); err != nil || runs {
			return err
		}
	}
	if err := j.tellSystemd("restart"); err != nil || !pending {
		return err
	}
	made.Upload.Restart = false
	return j.note(item.KindLogs, made)
}

// tellSystemd has systemd read the files of the service, and then start or stop it.
func (j *job) tellSystemd(verb string) error {
	if !j.h.Live || j.uploadSource() == "" {
		return nil
	}
	for _, args := range [][]string{{"daemon-reload"}, {verb, "--", uploadUnit}} {
		if err := j.run(inside.Command{Path: "systemctl", Args: args}); err != nil {
			return failed("%s: %v. Look at it with `systemctl status %s`", strings.Join(args, " "), err, uploadUnit)
		}
	}
	return nil
}

// removeUpload gives the system the service back as it was.
func (j *job) removeUpload() error {
	var made madeLogs
	if !j.entry(item.KindLogs, nil, &made) || made.Upload == nil {
		return j.removeLeftUpload()
	}
	files := []string{uploadFile, uploadMore}
	if !made.Upload.Enabled {
		files = append(files, uploadLink)
	}
	for _, file := range files {
		if err := j.delete(file); err != nil {
			return err
		}
	}
	for _, folder := range made.Upload.Folders {
		if err := j.deleteEmpty(folder); err != nil {
			return err
		}
	}
	verb := "stop"
	if made.Upload.Running && !j.uploadMasked() {
		verb = "restart"
	}
	if err := j.tellSystemd(verb); err != nil {
		return err
	}
	made.Upload = nil
	return j.note(item.KindLogs, made)
}

func (j *job) uploadMasked() bool {
	at, err := j.follow(uploadUser)
	return err == nil && at == j.h.Path("/dev/null")
}

// removeLeftUpload removes the files that carry our mark where the list of what Slipway made does
// not know of them any more. That of the settings is the last: it tells that they are left.
func (j *job) removeLeftUpload() error {
	text, _, err := j.read(uploadFile)
	if err != nil || uploadOf(string(text)) == "" {
		return err
	}
	for _, file := range []string{uploadMore, uploadLink, uploadFile} {
		if err := j.delete(file); err != nil {
			return err
		}
	}
	return j.tellSystemd("stop")
}
