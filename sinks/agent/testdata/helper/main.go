// Command helper is the helper with one facet for tests: "config", of files of one
// line in the root folder. What a file is asked to hold says how it misbehaves.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/report"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func main() {
	flag.String("checksum", "", "")
	root := flag.String("root", "/", "")
	first := flag.Bool("report", false, "")
	flag.Parse()
	none := empty{}
	p := run.Program{Host: inside.Real(*root, true), Facets: map[string]inside.Facet{
		"config": files{}, "base": users{}, "network": network{}, "packages": none, "kernel": none,
	}}
	if *first {
		if report.Print(context.Background(), os.Stdout, p.Host) != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("\n" + wire.Answers)
	}
	var in io.Reader = os.Stdin
	if record, err := os.OpenFile(filepath.Join(*root, "record"), os.O_WRONLY|os.O_APPEND, 0); err == nil {
		in = io.TeeReader(in, record) // all that it is asked
	}
	if p.Answer(context.Background(), in, os.Stdout) != nil {
		os.Exit(1)
	}
}

type empty struct{}

func (empty) Observe(context.Context, *inside.Host, []string) (inside.Seen, error) {
	return inside.Seen{}, nil
}

func (empty) Apply(context.Context, *inside.Host, []item.Item, []string) error { return nil }

// users keeps hashes of passwords as shadow(5) does.
type users struct{}

func (users) shadow(h *inside.Host) map[string]string {
	all := map[string]string{}
	text, _ := os.ReadFile(h.Path("/shadow"))
	json.Unmarshal(text, &all)
	return all
}

func (u users) Observe(_ context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	seen := inside.Seen{Have: map[string]string{}, Hashes: map[string]item.Hash{}}
	all := u.shadow(h)
	for _, key := range keys {
		hash, there := all[key]
		if !there {
			continue
		}
		for field, v := range (item.User{}).Fields() {
			seen.Have[item.Name(key, field)] = v
		}
		seen.Have[key+".password"] = "locked"
		if is, set := item.HashOf(hash); set {
			seen.Have[key+".password"] = is.Digest
			if slices.Contains(h.Hashes, key) {
				seen.Hashes[key] = is
			}
		}
	}
	return seen, nil
}

func (u users) Apply(_ context.Context, h *inside.Host, items []item.Item, _ []string) error {
	all := u.shadow(h)
	for _, i := range items {
		var body item.User
		if err := json.Unmarshal(i.Body, &body); err != nil {
			return err
		}
		all[i.Key] = body.Password
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return inside.WriteFile(h.Path("/shadow"), text, 0o600)
}

// network waits to be confirmed. The MTU says how it misbehaves.
type network struct{}

const (
	neverConfirmed = 601
	cutsConnection = 602
	hangsOnce      = 603 // cut, then its first look hangs, and meanwhile it was set back
	waitsShort     = 604
	cutsTwice      = 605 // the connection, here and when it is confirmed
	waits          = "/unconfirmed"
)

func (network) Observe(_ context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	if who, err := os.ReadFile(h.Path("/hangs")); err == nil && string(who) != strconv.Itoa(os.Getpid()) {
		os.Remove(h.Path("/hangs"))
		os.Remove(h.Path(waits))
		<-time.After(2 * time.Minute)
	}
	text, _ := os.ReadFile(h.Path("/network"))
	seen := inside.Seen{Have: map[string]string{}}
	json.Unmarshal(text, &seen.Have)
	return seen, nil
}

func (network) Apply(_ context.Context, h *inside.Host, items []item.Item, _ []string) error {
	text, err := json.Marshal(item.Values(items))
	if err != nil {
		return err
	}
	name := "change-1"
	for _, i := range items {
		switch i.Fields["mtu"] {
		case strconv.Itoa(neverConfirmed):
			name = "never"
		case strconv.Itoa(waitsShort):
			name = "short"
		case strconv.Itoa(cutsTwice):
			name = "cut"
		}
	}
	if err := errors.Join(inside.WriteFile(h.Path("/network"), text, 0o644), inside.WriteFile(h.Path(waits), []byte(name), 0o644)); err != nil {
		return err
	}
	for _, i := range items {
		switch i.Fields["mtu"] {
		case strconv.Itoa(hangsOnce):
			if err := inside.WriteFile(h.Path("/hangs"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
				return err
			}
			return cut()
		case strconv.Itoa(cutsConnection), strconv.Itoa(cutsTwice):
			return cut()
		}
	}
	return nil
}

// cut ends the SSH connection that the program was started over.
func cut() error {
	for pid := os.Getppid(); pid > 1; {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return err
		}
		name, rest, _ := strings.Cut(string(text), ") ")
		if strings.Contains(name, "(sshd") {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
		pid, _ = strconv.Atoi(strings.Fields(rest)[1])
	}
	return errors.New("there is no sshd above")
}

func (network) Unconfirmed(h *inside.Host) (name string, seconds int) {
	text, err := os.ReadFile(h.Path(waits))
	if err != nil {
		return "", 0
	}
	if string(text) == "never" || string(text) == "short" {
		return string(text), 3
	}
	return string(text), 60
}

func (network) Confirm(_ context.Context, h *inside.Host, name string) error {
	if _, err := os.Stat(h.Path("/confirmed")); err == nil {
		return nil
	}
	if text, err := os.ReadFile(h.Path(waits)); err != nil || string(text) != name {
		return &wire.Error{Class: wire.Reverted, Text: "the network was set back: no change " + name + " waits"}
	}
	if name == "never" {
		return &wire.Error{Class: wire.Busy, Text: "not now"}
	}
	if name == "cut" {
		return errors.Join(os.Rename(h.Path(waits), h.Path("/confirmed")), cut())
	}
	return os.Remove(h.Path(waits))
}

type files struct{}

func path(h *inside.Host, key string) string { return h.Path(filepath.Base(item.ID(key))) }

func (files) Observe(_ context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	seen := inside.Seen{Have: map[string]string{}}
	for _, key := range keys {
		if content, err := os.ReadFile(path(h, key)); err == nil {
			is := item.File{Content: content, Key: h.Keys[key], Mode: "0644", Owner: "root", Group: "root"}
			if info, err := os.Stat(path(h, key)); err == nil && info.Mode().Perm() == 0o600 {
				is.Mode = "0600"
			}
			for field, v := range is.Fields() {
				seen.Have[item.Name(key, field)] = v
			}
		}
	}
	return seen, nil
}

func (f files) Apply(ctx context.Context, h *inside.Host, items []item.Item, remove []string) error {
	for _, i := range items {
		var file item.File
		if err := json.Unmarshal(i.Body, &file); err != nil {
			return err
		}
		switch text := string(file.Content); {
		case strings.HasPrefix(text, "panic"):
			panic("as asked")
		case strings.HasPrefix(text, "refuse"):
			return &wire.Error{Class: wire.Refused, Text: "this system cannot have it\x1b[2J"}
		case strings.HasPrefix(text, "fail"):
			return os.ErrPermission
		case strings.HasPrefix(text, "die"):
			h.Owned.Take("config", i.Key, nil)
			os.Exit(9)
		case strings.HasPrefix(text, "forget"):
			continue
		}
		h.Tell("writing " + i.Key)
		if err := h.Owned.Take("config", i.Key, nil); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if file.Mode == "0600" {
			mode = 0o600
		}
		if err := inside.WriteFile(path(h, i.Key), file.Content, mode); err != nil {
			return err
		}
	}
	for _, key := range remove {
		if err := os.Remove(path(h, key)); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := h.Owned.Drop("config", key); err != nil {
			return err
		}
	}
	return nil
}
