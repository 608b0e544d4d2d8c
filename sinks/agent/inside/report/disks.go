package report

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// maxBlocks bounds how many block devices are reported.
const maxBlocks = 4096

// block is a block device in the terms of lsblk(8).
type block struct {
	name, kind    string
	bytes         int64
	model, serial string
}

// disks are the lines of `lsblk -b -n -P -e 1,7 -o NAME,TYPE,SIZE,MODEL,SERIAL`.
func disks(h *inside.Host) []byte {
	entries, err := os.ReadDir(h.Path("/sys/block"))
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	for _, e := range entries[:min(len(entries), maxBlocks)] {
		at := h.Path("/sys/block/" + e.Name())
		if number := inside.Text(filepath.Join(at, "dev")); strings.HasPrefix(number, "1:") || strings.HasPrefix(number, "7:") {
			continue // RAM disks and loop devices
		}
		write(&b, device(h, at, e.Name()))
		parts, _ := filepath.Glob(filepath.Join(at, e.Name()+"*", "partition"))
		slices.Sort(parts)
		for _, p := range parts {
			folder := filepath.Dir(p)
			write(&b, block{name: filepath.Base(folder), kind: "part", bytes: size(folder)})
		}
	}
	return b.Bytes()
}

func write(b *bytes.Buffer, d block) {
	if d.bytes > 0 {
		fmt.Fprintf(b, "NAME=%s TYPE=%s SIZE=\"%d\" MODEL=%s SERIAL=%s\n", quoted(d.name), quoted(d.kind), d.bytes, quoted(d.model), quoted(d.serial))
	}
}

// device describes a whole block device.
func device(h *inside.Host, at, name string) block {
	d := block{name: strings.ReplaceAll(name, "!", "/"), kind: "disk", bytes: size(at)}
	switch {
	case strings.HasPrefix(name, "dm-"):
		d.name, d.kind = cmp.Or(inside.Text(filepath.Join(at, "dm/name")), d.name), mapped(inside.Text(filepath.Join(at, "dm/uuid")))
		return d
	case inside.Text(filepath.Join(at, "md/level")) != "":
		d.kind = inside.Text(filepath.Join(at, "md/level"))
		return d
	case inside.Text(filepath.Join(at, "device/type")) == "5": // of SCSI: a CD
		d.kind = "rom"
	}
	udev := udevOf(h, inside.Text(filepath.Join(at, "dev")))
	d.model = strings.TrimSpace(cmp.Or(udev["ID_MODEL_ENC"], udev["ID_MODEL"], inside.Text(filepath.Join(at, "device/model"))))
	d.serial = strings.TrimSpace(cmp.Or(udev["SCSI_IDENT_SERIAL"], udev["ID_SCSI_SERIAL"], udev["ID_SERIAL_SHORT"], udev["ID_SERIAL"],
		inside.Text(filepath.Join(at, "serial")), inside.Text(filepath.Join(at, "device/serial"))))
	return d
}

// mapped is the kind of a mapped device, from the prefix of its UUID.
func mapped(uuid string) string {
	kind, _, found := strings.Cut(uuid, "-")
	if !found {
		return "dm"
	}
	if kind = strings.ToLower(kind); strings.HasPrefix(kind, "part") {
		return "part"
	}
	return kind
}

// udevOf is udev's data on a device, by the device's number.
func udevOf(h *inside.Host, number string) map[string]string {
	told := map[string]string{}
	if number == "" {
		return told
	}
	for l := range strings.Lines(string(file(h, "/run/udev/data/b"+number, maxText))) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(l, "\n"), "E:"), "="); ok && strings.HasPrefix(l, "E:") {
			told[name] = unescape(value)
		}
	}
	return told
}

// unescape decodes bytes that udev wrote as \xHH.
func unescape(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		if rest, ok := strings.CutPrefix(s, `\x`); ok && len(rest) >= 2 {
			if v, err := strconv.ParseUint(rest[:2], 16, 8); err == nil {
				b.WriteByte(byte(v))
				s = rest[2:]
				continue
			}
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}

// size is the size of a block device in bytes. The kernel always counts sectors of 512 bytes.
func size(at string) int64 {
	n, err := strconv.ParseInt(inside.Text(filepath.Join(at, "size")), 10, 64)
	if err != nil || n < 0 || n > 1<<53 {
		return 0
	}
	return n * 512
}

// quoted quotes a text and escapes special characters like lsblk(8).
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '$' || c == '`' {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
