package base

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Certificates are let in by a file of settings of Slipway's own, which names who may sign them,
// and by a file for each account with the name that a certificate for it must have. Nothing that
// was there is changed or comes to mean something else: sshd takes the first value of a setting,
// and this is refused where another file has set one of the two.
const (
	sshMain     = "/etc/ssh/sshd_config"
	sshSettings = "/etc/ssh/sshd_config.d/60-slipway.conf"
	sshFiles    = "/etc/ssh/slipway"
	sshSigners  = sshFiles + "/authorities"
	sshNames    = sshFiles + "/principals"
	sshText     = "# Slipway's, from the design.\nTrustedUserCAKeys " + sshSigners + "\nAuthorizedPrincipalsFile " + sshNames + "/%u\n"
	sshRevoked  = sshFiles + "/revoked"
	sshRevokes  = sshText + "RevokedKeys " + sshRevoked + "\n" // only with a list: without the file sshd refuses every key
	sshServer   = "/usr/sbin/sshd"
)

// sshWanted are the settings that let certificates in, as `sshd -T` prints them.
var sshWanted = map[string]string{"trustedusercakeys": sshSigners, "authorizedprincipalsfile": sshNames + "/%u"}

// madeSSH is what we made of the SSH server.
type madeSSH struct {
	Reload bool `json:"reload,omitempty"` // it has not read what we wrote
	// Readers are the servers that may go on with settings that name the list, as otherServers has them.
	Readers []string `json:"readers,omitempty"`
}

// cannotSSH says why a system cannot let certificates in yet.
func (j *job) cannotSSH() (string, error) {
	if cannot, err := j.cannotSet(sshSettings); cannot != "" || err != nil {
		return cannot, err
	}
	return j.setElsewhere(sshMain, 0, "trustedusercakeys", "authorizedprincipalsfile")
}

// cannotSet says why a file of settings of ours would not count.
func (j *job) cannotSet(settings string) (string, error) {
	if !j.exists(sshServer) {
		return "there is no SSH server to log in to: add the package openssh-server", nil
	}
	text, there, err := j.read(sshMain)
	switch {
	case err != nil:
		return "", err
	case !there:
		return "the SSH server has no " + sshMain + ": reinstall it", nil
	case !includesSSH(string(text), settings):
		return sshMain + " reads no files of /etc/ssh/sshd_config.d: add the line `Include /etc/ssh/sshd_config.d/*.conf` at its beginning", nil
	}
	return "", nil
}

// includesSSH says whether the main settings read a file of ours, for all logins: before the first
// Match, behind which a line counts for some.
func includesSSH(text, settings string) bool {
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.Replace(line, "=", " ", 1))
		if len(words) == 0 {
			continue
		}
		switch strings.ToLower(words[0]) {
		case "match":
			return false
		case "include":
			for _, pattern := range words[1:] {
				pattern = strings.Trim(pattern, `"`)
				if !filepath.IsAbs(pattern) {
					pattern = "/etc/ssh/" + pattern
				}
				if is, _ := filepath.Match(pattern, settings); is {
					return true
				}
			}
		}
	}
	return false
}

// sshd asks the server which settings hold for an account; with a text, as if it were read
// before all files.
func (j *job) sshd(account, before string) (map[string]string, error) {
	out, err := j.askSSHD(account, before)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(out.Out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, twice := all[name]; !twice {
			all[name] = value
		}
	}
	return all, nil
}

// askSSHD is what `sshd -T` says for an account, as sshd has it.
func (j *job) askSSHD(account, before string) (inside.Output, error) {
	c := inside.Command{Path: sshServer, Args: []string{"-T", "-C", "user=" + account + ",host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22"}}
	if before != "" {
		c.Args = append(c.Args, "-f", "/dev/stdin")
		c.Stdin = []byte(before + "Include " + sshMain + "\n")
	}
	out, err := j.h.Exec(j.ctx, c)
	switch {
	case err != nil:
		return out, err
	case out.Code != 0:
		return out, fmt.Errorf("sshd does not accept its settings: %s", last(bytes.ReplaceAll(out.Err, []byte("\r"), nil)))
	}
	return out, nil
}

// othersInSSH says that somebody else has set what lets certificates in.
func othersInSSH(settings map[string]string) string {
	for _, name := range []string{"trustedusercakeys", "authorizedprincipalsfile"} {
		if is := settings[name]; is != "" && is != "none" && is != sshWanted[name] {
			return setByOthers("another file of the SSH server", name, is)
		}
	}
	return ""
}

// holds says whether the settings are those of our text.
func holds(settings map[string]string, text string) bool {
	if text == sshRevokes && settings["revokedkeys"] != sshRevoked {
		return false
	}
	for name, want := range sshWanted {
		if settings[name] != want {
			return false
		}
	}
	return true
}

func (j *job) seeSSH(seen *inside.Seen) {
	const accounts, authorities, revoked = item.KindSSH + ".accounts", item.KindSSH + ".authorities", item.KindSSH + ".revoked"
	cannot, err := j.cannotSSH()
	text, there, unread := j.read(sshSettings)
	if err == nil {
		err = unread
	}
	if err != nil {
		seen.Unread[item.KindSSH] = err.Error()
		return
	}
	if cannot == "" && j.h.Live {
		settings, err := j.sshd("root", "")
		if err != nil {
			seen.Unread[item.KindSSH] = err.Error()
			return
		}
		if cannot = othersInSSH(settings); cannot == "" && there && isSSHText(text) && !holds(settings, string(text)) {
			seen.Have[accounts] = "not in effect: sshd does not read " + sshSettings
			return
		}
	}
	if cannot != "" {
		seen.Cannot[accounts], seen.Cannot[authorities], seen.Cannot[revoked] = cannot, cannot, cannot
	}
	var made madeSSH
	j.entry(item.KindSSH, nil, &made)
	switch {
	case !there || cannot != "":
		return
	case j.rootsSSH() != nil:
		seen.Have[accounts] = printable(j.rootsSSH().Error())
		return
	case !isSSHText(text):
		seen.Have[accounts] = "changed by hand"
		return
	case made.Reload && j.h.Live:
		seen.Have[accounts] = "the SSH server must be reloaded"
		return
	}
	names, err := j.sshNames()
	signers, _, unread := j.read(sshSigners)
	if err != nil || unread != nil {
		seen.Unread[item.KindSSH] = fmt.Sprint(worst(err, unread))
		return
	}
	var keys []string
	for line := range strings.Lines(string(signers)) {
		keys = append(keys, printable(item.Fingerprint(strings.TrimSpace(line))))
	}
	seen.Have[accounts], seen.Have[authorities] = item.List(names), item.List(keys)
	j.seeRevoked(seen, string(text))
}

// sshNames are the names that let certificates in, of all accounts. One that is in the file of
// another account is told with it.
func (j *job) sshNames() (all []string, err error) {
	files, err := j.list(sshNames, "")
	for i := 0; err == nil && i < len(files); i++ {
		var text []byte
		text, _, err = j.read(files[i])
		account := printable(filepath.Base(files[i]))
		for line := range strings.Lines(string(text)) {
			name := printable(strings.TrimSuffix(line, "\n"))
			if !strings.HasPrefix(name, "slipway:") || !strings.HasSuffix(name, ":"+account) {
				name += " for the account " + account
			}
			all = append(all, name)
		}
	}
	return all, err
}

// checkSSH refuses what cannot be, and what would lock this session out.
func (j *job) checkSSH(want item.SSH) error {
	for _, key := range want.Authorities {
		if parseKey(key) == "" || !strings.HasPrefix(key, "ssh-ed25519 ") || strings.ContainsAny(key, "\r\n") || printable(key) != key {
			return refused("%.60q is not the public key of an SSH authority", key)
		}
	}
	for _, account := range want.Accounts {
		if !validName(account) {
			return refused("%.100q is not a name for an account", account)
		}
	}
	if want.Node == "" || strings.ContainsAny(want.Node, " \t\r\n:/") || printable(want.Node) != want.Node {
		return refused("%.100q is not the name of a node", want.Node)
	}
	if err := j.checkRevoked(want); err != nil {
		return err
	}
	return j.keepCertificates(want)
}

// keepCertificates refuses to take away what this session came by.
func (j *job) keepCertificates(want item.SSH) error {
	by := j.h.LoginAuthority
	if by == "" || slices.ContainsFunc(want.Authorities, func(key string) bool { return item.Fingerprint(key) == item.Fingerprint(by) }) &&
		slices.Contains(want.Accounts, j.h.Login) {
		return nil
	}
	return refused("Slipway logs in as %s by a certificate that %s signed, and could not log in again without it: keep the account and the key in the design until another way to log in works",
		j.h.Login, item.Fingerprint(by))
}

func (j *job) setSSH(want item.SSH) error {
	if !want.IsAsked() {
		return j.removeSSH()
	}
	if err := j.checkSSH(want); err != nil {
		return err
	}
	cannot, err := j.cannotSSH()
	switch {
	case err != nil:
		return failed("%v", err)
	case cannot != "":
		return lacking(cannot)
	}
	text, err := j.textSSH(want)
	if err != nil {
		return err
	}
	if err := j.trySSH(want.Accounts, text); err != nil {
		return err
	}
	if err := j.take(item.KindSSH, nil); err != nil {
		return err
	}
	if err := j.writeSSH(want); err != nil {
		return err
	}
	if err := j.useSSH(want.Accounts, text); err != nil {
		return err
	}
	if text == sshRevokes {
		return nil
	}
	_, err = j.retireRevoked()
	return err
}

// trySSH has sshd read the settings before they count, where it runs.
func (j *job) trySSH(accounts []string, text string) error {
	if !j.h.Live {
		return nil
	}
	settings, err := j.sshd(accounts[0], "")
	if err != nil {
		return failed("%v. Correct that first: Slipway changes nothing of an SSH server that could not start", err)
	}
	if others := othersInSSH(settings); others != "" {
		return lacking(others)
	}
	if settings, err = j.sshd(accounts[0], text); err != nil {
		return failed("with the settings for logins by certificate, %v. The SSH server was not changed", err)
	}
	if !holds(settings, text) {
		return failed("sshd ignores the settings for logins by certificate. The SSH server was not changed: look at `sshd -T`")
	}
	return nil
}

// writeSSH writes the files that the settings name.
func (j *job) writeSSH(want item.SSH) error {
	for _, folder := range []string{sshFiles, sshNames} {
		if _, err := j.folder(folder); err != nil {
			return err
		}
	}
	if err := j.put(sshSigners, []byte(strings.Join(want.Authorities, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := j.writeRevoked(want); err != nil {
		return err
	}
	for _, account := range want.Accounts {
		if err := j.put(sshNames+"/"+account, []byte(item.LoginName(want.Node, account)+"\n"), 0o644); err != nil {
			return err
		}
	}
	if err := j.rootsSSH(); err != nil {
		return err
	}
	files, err := j.list(sshNames, "")
	if err != nil {
		return failed("%v", err)
	}
	for _, file := range files {
		if !slices.Contains(want.Accounts, filepath.Base(file)) {
			if err := j.delete(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// useSSH puts the settings in place, and takes them back unless sshd accepts them for each
// account. The server is reloaded, and goes on with the connections that it has.
func (j *job) useSSH(accounts []string, text string) error {
	before, there, err := j.read(sshSettings)
	if err != nil {
		return failed("%v", err)
	}
	var made madeSSH
	j.entry(item.KindSSH, nil, &made)
	if string(before) == text {
		if !made.Reload {
			return nil
		}
		there = false // a run was cut off behind its write
	}
	made.Reload = true
	if err := j.note(item.KindSSH, made); err != nil {
		return err
	}
	if err := j.put(sshSettings, []byte(text), 0o644); err != nil {
		return err
	}
	if err := j.provenSSH(accounts, text); err != nil {
		if j.h.LoginAuthority != "" && string(before) == text {
			return err // this session came by them
		}
		if there {
			return worst(j.put(sshSettings, before, 0o644), err)
		}
		return worst(j.delete(sshSettings), err)
	}
	return j.reloadSSH()
}

// provenSSH asks sshd whether the settings let certificates in for each account.
func (j *job) provenSSH(accounts []string, text string) error {
	if !j.h.Live {
		return nil
	}
	for _, account := range accounts {
		settings, err := j.sshd(account, "")
		if err != nil {
			return failed("%v. The settings are as they were", err)
		}
		if !holds(settings, text) {
			return failed("another file of the SSH server makes it refuse certificates for %s. The settings are as they were: look at `sshd -T -C user=%s`", account, account)
		}
	}
	return nil
}

func (j *job) removeSSH() error {
	var made madeSSH
	if !j.entry(item.KindSSH, nil, &made) {
		return nil
	}
	if err := j.keepCertificates(item.SSH{}); err != nil {
		return err
	}
	if j.exists(sshSettings) {
		made.Reload = true
		if err := j.note(item.KindSSH, made); err != nil {
			return err
		}
		if err := j.delete(sshSettings); err != nil {
			return err
		}
	}
	if j.h.Live && j.exists(sshServer) {
		if _, err := j.sshd("root", ""); err != nil {
			return failed("%v. The SSH server was not reloaded", err)
		}
	}
	if err := j.reloadSSH(); err != nil {
		return err
	}
	if err := j.clearSSH(); err != nil {
		return err
	}
	return j.drop(item.KindSSH)
}

// clearSSH removes the files that the settings named.
func (j *job) clearSSH() error {
	files, err := j.list(sshNames, "")
	if err != nil {
		return failed("%v", err)
	}
	for _, file := range append(files, sshSigners) {
		if err := j.delete(file); err != nil {
			return err
		}
	}
	switch readers, err := j.retireRevoked(); {
	case err != nil:
		return err
	case len(readers) > 0:
		return &wire.Error{Class: wire.Busy, Text: fmt.Sprintf("%s stays, as an empty list: an SSH server that is not ssh.service, or a process that Slipway cannot read, may still ask for it. Such a server would refuse every key without it. Restart that server: process %s",
			sshRevoked, processesOf(readers))}
	}
	for _, folder := range []string{sshNames, sshFiles} {
		at, err := j.place(folder)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(at); err != nil {
			continue
		}
		if err := j.deleteEmpty(folder); err != nil {
			return err
		}
	}
	return nil
}
