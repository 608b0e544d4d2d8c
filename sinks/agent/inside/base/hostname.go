package base

import (
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

const hostnameFile = "/etc/hostname"

// wasHostname is what the file was before us; nil for none.
type wasHostname struct {
	Content *string `json:"content,omitempty"`
}

// fileName is the host name in a text of hostname(5): its first line that is no
// comment.
func fileName(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line
		}
	}
	return ""
}

func (j *job) seeHostname(seen *inside.Seen) {
	text, _, err := j.read(hostnameFile)
	if err != nil {
		seen.Unread[item.KindHostname] = err.Error()
		return
	}
	have := printable(fileName(string(text)))
	if j.h.Live {
		running, err := j.running()
		if err != nil {
			seen.Unread[item.KindHostname] = "the running host name: " + err.Error()
			return
		}
		if running != have {
			have = strings.TrimSpace(have + " (running as " + printable(running) + ")")
		}
	}
	if have != "" {
		seen.Have[item.KindHostname] = have
	}
}

func (j *job) setHostname(want string) error {
	if !validHost(want) || len(want) > 64 {
		return refused("%.100q is not a host name: use at most 64 letters, digits, hyphens and dots", want)
	}
	text, there, err := j.read(hostnameFile)
	if err != nil {
		return failed("%v", err)
	}
	if fileName(string(text)) != want {
		before := wasHostname{}
		if there {
			content := string(text)
			before.Content = &content
		}
		if err := j.take(item.KindHostname, before); err != nil {
			return err
		}
		if err := j.write(hostnameFile, []byte(want+"\n")); err != nil {
			return err
		}
	}
	return j.runAs(want)
}

// runAs gives the running system its name.
func (j *job) runAs(want string) error {
	if !j.h.Live || want == "" {
		return nil
	}
	if running, err := j.running(); err == nil && running == want {
		return nil
	}
	j.step("set the running host name")
	if err := j.rename([]byte(want)); err != nil {
		return failed("set the running host name: %v", err)
	}
	return nil
}

func (j *job) removeHostname() error {
	var before wasHostname
	if !j.entry(item.KindHostname, &before, nil) {
		return nil
	}
	if before.Content == nil {
		if err := j.delete(hostnameFile); err != nil {
			return err
		}
	} else {
		if err := j.write(hostnameFile, []byte(*before.Content)); err != nil {
			return err
		}
		if err := j.runAs(fileName(*before.Content)); err != nil {
			return err
		}
	}
	return j.drop(item.KindHostname)
}

// validHost says whether a text is a host name.
func validHost(text string) bool {
	if text == "" || len(text) > 253 || text[0] == '-' || text[0] == '.' {
		return false
	}
	for _, c := range []byte(text) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return true
}
