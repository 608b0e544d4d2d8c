package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// noUdev keeps mdadm(8) from waiting for udev.
var noUdev = []string{"MDADM_NO_UDEV=1"}

// arrays makes the md arrays.
func (m *maker) arrays(ctx context.Context) error {
	for _, a := range m.layout.Arrays {
		m.h.Tell("making the array " + a.Name)
		args := []string{
			"--create", "", "--run", "--metadata=1.2", "--uuid=" + a.MdadmUUID(), "--name=" + a.Name, "--homehost=" + cmp.Or(m.layout.Homehost, "any"),
			"--level=" + strings.TrimPrefix(a.Level, "raid"), "--raid-devices=" + strconv.Itoa(len(a.Members)-a.Spares),
			"--data-offset=" + strconv.FormatInt(a.DataOffset>>10, 10) + "K",
		}
		if a.Spares > 0 {
			args = append(args, "--spare-devices="+strconv.Itoa(a.Spares))
		}
		if a.Chunk > 0 {
			args = append(args, "--chunk="+strconv.FormatInt(a.Chunk>>10, 10)+"K")
		}
		if a.MemberBytes > 0 {
			args = append(args, "--size="+strconv.FormatInt(a.MemberBytes>>10, 10)+"K", "--bitmap=internal")
		}
		number, err := m.freeArray()
		if err != nil {
			return err
		}
		args[1] = "/dev/" + number
		for _, p := range a.Members {
			name, err := m.device(p)
			if err != nil {
				return err
			}
			args = append(args, "/dev/"+name)
		}
		if err := run(ctx, m.h, inside.Command{Path: "mdadm", Args: args, Env: noUdev, Timeout: programWithin}); err != nil {
			return err
		}
		name, err := m.device(item.Place{Array: a.Name})
		if err != nil {
			return err
		}
		if is := say(m.h.Path("/sys/block/"+name), "size"); is != strconv.FormatInt(a.Bytes/512, 10) {
			return fmt.Errorf("the array %s has %s sectors, and should have %d", a.Name, is, a.Bytes/512)
		}
		if err := m.wipeDevice(name, a.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// freeArray finds an unused array name.
func (m *maker) freeArray() (string, error) {
	for n := range maxStack {
		name := "md" + strconv.Itoa(n)
		if _, err := os.Lstat(m.h.Path("/sys/block/" + name)); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
	}
	return "", errors.New("the kernel has no number left for an array")
}

// wipeDevice clears the signatures of an array, because old data on its members can show through.
func (m *maker) wipeDevice(name string, bytes int64) error {
	f, err := os.OpenFile(node(m.h, name), os.O_RDWR|os.O_EXCL, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := wipe(f, 0, bytes); err != nil {
		return err
	}
	return f.Sync()
}
