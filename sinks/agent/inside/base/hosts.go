package base

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

const hostsFile = "/etc/hosts"

// The lines around what is ours in a file that others write too.
const (
	blockBegin = "# begin slipway"
	blockEnd   = "# end slipway"
)

// block is a file with a part that is ours.
type block struct {
	before, ours, after string
	there               bool
}

// split finds the part that is ours. A part without an end, or two of them, is an
// error: where it ends is not guessed.
func split(text string) (b block, err error) {
	var at int
	begin, end := -1, -1
	for line := range strings.Lines(text) {
		switch strings.TrimRight(line, " \t\r\n") {
		case blockBegin:
			if begin >= 0 {
				return b, fmt.Errorf("has %q twice", blockBegin)
			}
			begin = at
		case blockEnd:
			if begin < 0 || end >= 0 {
				return b, fmt.Errorf("has %q without a %q before it", blockEnd, blockBegin)
			}
			end = at + len(line)
			b.ours = text[begin:at]
		}
		at += len(line)
	}
	switch {
	case begin < 0:
		b.before = text
		return b, nil
	case end < 0:
		return b, fmt.Errorf("has %q and no %q after it", blockBegin, blockEnd)
	}
	_, b.ours, _ = strings.Cut(b.ours, "\n")
	b.before, b.after, b.there = text[:begin], text[end:], true
	return b, nil
}

// join is the file with another part of ours; with an empty one it is the file
// without.
func (b block) join(ours string) string {
	if ours == "" {
		return b.before + b.after
	}
	before := b.before
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	return before + blockBegin + "\n" + ours + blockEnd + "\n" + b.after
}

// hostsText is what a part of hosts(5) says, in order of the addresses.
func hostsText(h item.Hosts) string {
	var text strings.Builder
	for _, address := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(&text, "%s %s\n", address, strings.Join(h[address], " "))
	}
	return text.String()
}

// parseHosts reads lines of hosts(5).
func parseHosts(text string) item.Hosts {
	h := item.Hosts{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if parts := strings.Fields(line); len(parts) > 1 {
			h[parts[0]] = append(h[parts[0]], parts[1:]...)
		}
	}
	return h
}

func (j *job) seeHosts(seen *inside.Seen) {
	text, _, err := j.read(hostsFile)
	if err != nil {
		seen.Unread[item.KindHosts] = err.Error()
		return
	}
	b, err := split(string(text))
	if err != nil {
		seen.Unread[item.KindHosts] = brokenBlock(hostsFile, err)
		return
	}
	if b.there {
		seen.Have[item.KindHosts] = parseHosts(b.ours).Fields()[""]
	}
}

func brokenBlock(path string, err error) string {
	return fmt.Sprintf("%s %v: Slipway does not guess which lines are its own. Remove its lines and these marks", path, err)
}

func (j *job) setHosts(want item.Hosts) error {
	for address, names := range want {
		if _, err := netip.ParseAddr(address); err != nil {
			return refused("%.100q is not an address", address)
		}
		if len(names) == 0 {
			return refused("the address %s has no name", address)
		}
		for _, n := range names {
			if !validHost(n) {
				return refused("%.100q is not a host name", n)
			}
		}
	}
	b, before, err := j.blockOf(hostsFile)
	if err != nil {
		return err
	}
	if b.there && b.ours == hostsText(want) {
		return nil
	}
	if err := j.take(item.KindHosts, before); err != nil {
		return err
	}
	return j.write(hostsFile, []byte(b.join(hostsText(want))))
}

// wasBlock is what must be known of a file to take our part out of it.
type wasBlock struct {
	// Bare says that the last line had no end; None that there was no file.
	Bare bool `json:"bare,omitempty"`
	None bool `json:"none,omitempty"`
}

func (j *job) blockOf(path string) (block, wasBlock, error) {
	text, there, err := j.read(path)
	if err != nil {
		return block{}, wasBlock{}, failed("%v", err)
	}
	b, err := split(string(text))
	if err != nil {
		return block{}, wasBlock{}, refused("%s", brokenBlock(path, err))
	}
	return b, wasBlock{Bare: len(text) > 0 && text[len(text)-1] != '\n', None: !there}, nil
}

func (j *job) removeHosts() error {
	var before wasBlock
	if !j.entry(item.KindHosts, &before, nil) {
		return nil
	}
	b, _, err := j.blockOf(hostsFile)
	if err != nil {
		return err
	}
	if before.Bare && b.there && b.after == "" {
		b.before = strings.TrimSuffix(b.before, "\n")
	}
	switch left := b.join(""); {
	case left == "" && before.None:
		err = j.delete(hostsFile)
	case b.there:
		err = j.write(hostsFile, []byte(left))
	}
	if err != nil {
		return err
	}
	return j.drop(item.KindHosts)
}
