package base

import (
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

const noSudo = "there is no sudo: add the package sudo"

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
	text, there, err := j.read(item.SudoFile(account))
	switch {
	case err != nil:
		return "", err
	case !there:
		return "false", nil
	case string(text) != item.SudoRule(account):
		return "changed by hand", nil
	}
	return "true", nil
}

func (j *job) setSudo(account string, want bool) error {
	if !want {
		return j.delete(item.SudoFile(account))
	}
	text, _, err := j.read(item.SudoFile(account))
	if err != nil {
		return failed("%v", err)
	}
	if string(text) == item.SudoRule(account) {
		return j.put(item.SudoFile(account), []byte(item.SudoRule(account)), 0o440)
	}
	if j.first("/usr/sbin/visudo", "/sbin/visudo") != "" {
		if err := inside.CheckSudoers(j.ctx, j.h, []byte(item.SudoRule(account))); err != nil {
			return failed("visudo does not accept the rule for %s: %v", account, err)
		}
	}
	return j.put(item.SudoFile(account), []byte(item.SudoRule(account)), 0o440)
}
