package base

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

const noSudo = "there is no sudo: add the package sudo"

// sudoFile is that of an account's rule. sudo reads no file with a dot in its
// name; names of accounts have none.
func sudoFile(account string) string { return "/etc/sudoers.d/slipway-" + account }

func sudoText(account string) string {
	return fmt.Sprintf("# Slipway's, from the design.\n%s ALL=(ALL:ALL) NOPASSWD: ALL\n", account)
}

// cannotSudo says why a rule would have no effect; empty when it has one.
func (j *job) cannotSudo() string {
	if j.first("/usr/bin/sudo", "/bin/sudo") == "" {
		return noSudo
	}
	text, there, err := j.read("/etc/sudoers")
	if err == nil && there && !includesRules(string(text)) {
		return `/etc/sudoers does not read /etc/sudoers.d: add the line "@includedir /etc/sudoers.d"`
	}
	return ""
}

// includesRules says whether sudoers(5) reads the folder of rules; "#" begins
// such a line in older versions, and is no comment then.
func includesRules(text string) bool {
	for line := range strings.Lines(text) {
		parts := strings.Fields(line)
		if len(parts) == 2 && (parts[0] == "@includedir" || parts[0] == "#includedir") && strings.TrimSuffix(parts[1], "/") == "/etc/sudoers.d" {
			return true
		}
	}
	return false
}

// sudo says whether an account has our rule: "true", "false", or what is wrong.
func (j *job) sudo(account string) (string, error) {
	text, there, err := j.read(sudoFile(account))
	switch {
	case err != nil:
		return "", err
	case !there:
		return "false", nil
	case string(text) != sudoText(account):
		return "changed by hand", nil
	}
	return "true", nil
}

func (j *job) setSudo(account string, want bool) error {
	if !want {
		return j.delete(sudoFile(account))
	}
	text, _, err := j.read(sudoFile(account))
	if err != nil {
		return failed("%v", err)
	}
	if string(text) == sudoText(account) {
		return j.put(sudoFile(account), []byte(sudoText(account)), 0o440)
	}
	// A rule that sudo cannot read may keep everybody from using sudo.
	if j.first("/usr/sbin/visudo", "/sbin/visudo") != "" {
		if err := j.check(inside.Command{Path: "visudo", Args: []string{"-c", "-f", "-"}, Stdin: []byte(sudoText(account))}); err != nil {
			return failed("visudo does not accept the rule for %s: %v", account, err)
		}
	}
	return j.put(sudoFile(account), []byte(sudoText(account)), 0o440)
}
