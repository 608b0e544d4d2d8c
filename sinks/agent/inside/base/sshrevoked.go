package base

import (
	"bytes"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// sshKeygen reads a list of revoked keys as sshd does.
const sshKeygen = "/usr/bin/ssh-keygen"

// A list of revoked keys is dangerous: where the settings name one that sshd cannot read, it
// refuses every public key (sshd_config(5), RevokedKeys). `sshd -T` does not look at the file. So the
// list is read by the node's own OpenSSH before it is written, is replaced as a whole, is there
// before the settings name it, and goes after the server has read settings that do not.

// isSSHText says whether a file of settings is as we write it.
func isSSHText(text []byte) bool { return slices.Contains([]string{sshText, sshRevokes}, string(text)) }

// textSSH is our file of settings, once it is known that sshd can use the list that it names.
func (j *job) textSSH(want item.SSH) (string, error) {
	list, err := want.KRL()
	switch {
	case err != nil:
		return "", refused("%v", err)
	case list == nil:
		return sshText, nil
	}
	other, err := j.setElsewhere(sshMain, 0, "revokedkeys")
	switch {
	case err != nil:
		return "", failed("%v", err)
	case other != "":
		return "", lacking(other)
	case !j.h.Live:
		return sshRevokes, nil
	}
	// A server that keeps running with settings that it was not made to read again would still ask for the
	// list when the design revokes nobody any longer.
	switch others, err := j.otherServers(); {
	case err != nil:
		return "", err
	case len(others.others) > 0:
		return "", refused("an SSH server runs here that is not ssh.service (process %s), and Slipway cannot reload it. It would ignore a list of revoked keys, and refuse every key after the list is removed. Stop that server, or revoke nobody in the design. The settings of the SSH server were not changed", processesOf(others.others))
	}
	out, err := j.h.Exec(j.ctx, inside.Command{Path: sshKeygen, Args: []string{"-Q", "-f", "/dev/stdin"}, Stdin: list})
	switch {
	case err != nil:
		return "", failed("read the list of revoked keys with %s: %v. The settings of the SSH server were not changed", sshKeygen, err)
	case out.Code != 0:
		return "", failed("this system's OpenSSH does not read the list of revoked keys, and would refuse every login with it: %s. The settings of the SSH server were not changed", last(out.Err))
	}
	return sshRevokes, nil
}

// checkRevoked refuses to revoke what Slipway logs in with.
func (j *job) checkRevoked(want item.SSH) error {
	if want.Revoked == nil {
		return nil
	}
	own := []string{item.Fingerprint(j.h.LoginAuthority), item.Fingerprint(j.h.LoginKey)}
	for _, key := range want.Authorities {
		own = append(own, item.Fingerprint(key))
	}
	for _, key := range want.Revoked.Keys {
		if is := item.Fingerprint(key); slices.Contains(own, is) {
			return refused("Slipway logs in with the key %s, or it is an authority of certificates, and the design revokes it: give the credential another key first, then revoke this one", is)
		}
	}
	return nil
}

// writeRevoked writes the list, before any settings name it.
func (j *job) writeRevoked(want item.SSH) error {
	list, err := want.KRL()
	if err != nil || list == nil {
		return err
	}
	if err := j.put(sshRevoked, list, 0o644); err != nil {
		return err
	}
	switch is, _, err := j.read(sshRevoked); {
	case err != nil:
		return failed("%v", err)
	case !bytes.Equal(is, list):
		return failed("%s is not what was written to it", sshRevoked)
	}
	return nil
}

// retireRevoked removes a list that the settings do not name any longer. While servers run that may have read
// settings that did, they are returned, and an empty list stays for them.
func (j *job) retireRevoked() (readers []string, err error) {
	list, there, err := j.read(sshRevoked)
	switch {
	case err != nil:
		return nil, failed("%v", err)
	case !there:
		return nil, nil
	}
	others, err := j.otherServers()
	if err != nil {
		return nil, err
	}
	readers = append(others.others, others.unread...)
	var made madeSSH
	j.entry(item.KindSSH, nil, &made)
	if bytes.Equal(list, item.EmptyKRL()) { // those that started since then have never been told of it
		readers = slices.DeleteFunc(readers, func(server string) bool { return !slices.Contains(made.Readers, server) })
	}
	if len(readers) == 0 {
		return nil, j.delete(sshRevoked)
	}
	made.Readers = readers
	if err := j.note(item.KindSSH, made); err != nil { // before the list is empty, which says that they are known
		return nil, err
	}
	return readers, j.put(sshRevoked, item.EmptyKRL(), 0o644)
}

// seeRevoked reports the list that the settings name.
func (j *job) seeRevoked(seen *inside.Seen, text string) {
	const field = item.KindSSH + ".revoked"
	if other, err := j.setElsewhere(sshMain, 0, "revokedkeys"); err == nil && other != "" {
		seen.Cannot[field] = other
	}
	if text != sshRevokes {
		seen.Have[field] = item.NoneRevoked
		return
	}
	list, there, err := j.read(sshRevoked)
	switch {
	case err != nil:
		seen.Unread[item.KindSSH] = err.Error()
	case !there:
		seen.Have[field] = "the list is missing, so sshd refuses every key"
	default:
		seen.Have[field] = printable(item.RevokedBy(list))
	}
}
