package boot

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// variables is where the kernel shows the variables of UEFI firmware (efivarfs).
const variables = "/sys/firmware/efi/efivars"

// global ends the names of the boot manager's variables with its own GUID (UEFI specification 2.10, section 3.3).
const global = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"

// These are the bounds on what is read from the firmware.
const (
	maxVariables = 4096
	maxVariable  = 64 << 10
)

var little = binary.LittleEndian

// Entry is a boot manager entry that starts a file on a disk.
type Entry struct {
	Number uint16
	// Name is what the firmware shows.
	Name string
	// Partition is the GUID of a GPT partition, in lower case. File is the path there.
	Partition string
	File      string
}

// String is the usual name of an entry: "Boot0003 (debian)".
func (e Entry) String() string { return fmt.Sprintf("Boot%04X (%s)", e.Number, e.Name) }

var entryName = inside.Pattern(`^Boot([0-9A-F]{4})` + global + `$`)

// ErrUnknown reports that the boot manager cannot be read: the machine was booted by a BIOS, or its kernel shows no
// variables.
var ErrUnknown = errors.New("the kernel shows no variables of UEFI firmware, so the entries of its boot manager are unknown")

// Entries lists the boot manager entries that start a file of a GPT partition. It skips others, such as network
// entries. If the entries cannot be read, it returns ErrUnknown.
func Entries(h *inside.Host) (all []Entry, err error) {
	names, err := variableNames(h)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		m := entryName().FindStringSubmatch(name)
		if m == nil {
			continue
		}
		text, err := readVariable(h, name)
		if err != nil {
			return nil, err
		}
		number, _ := strconv.ParseUint(m[1], 16, 16) // the pattern ensures a number
		if e, ok := parseEntry(text); ok {
			e.Number = uint16(number)
			all = append(all, e)
		}
	}
	return all, nil
}

func variableNames(h *inside.Host) ([]string, error) {
	folder, err := os.Open(h.Path(variables))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(maxVariables)
	if len(names) == 0 { // efivarfs is not mounted: firmware always has variables
		return nil, ErrUnknown
	}
	slices.Sort(names)
	return names, err
}

// readVariable reads a variable and drops the first four bytes, its attributes.
func readVariable(h *inside.Host, name string) ([]byte, error) {
	f, err := os.Open(h.Path(variables + "/" + name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, maxVariable)
	n, err := f.Read(text) // one read returns all of it
	if err != nil {
		return nil, fmt.Errorf("read the variable %s of the firmware: %w", name, err)
	}
	if n < 4 {
		return nil, fmt.Errorf("the variable %s of the firmware has %d bytes", name, n)
	}
	return text[4:n], nil
}

// The nodes of a device path (UEFI specification 2.10, section 10.3) that name a file.
const (
	mediaNode, driveNode, fileNode = 4, 1, 4
	driveBytes                     = 42
	isGPT, hasGUID                 = 2, 2
)

// parseEntry reads a load option (UEFI specification 2.10, section 3.1.3). It accepts any bytes. ok is false if the
// option does not start a file of a GPT partition.
func parseEntry(b []byte) (e Entry, ok bool) {
	if len(b) < 6 {
		return e, false
	}
	length := int(little.Uint16(b[4:]))
	name, rest, ok := cutText(b[6:])
	if !ok || length > len(rest) {
		return e, false
	}
	e.Name = name
	for path := rest[:length]; len(path) >= 4; {
		kind, sub, size := path[0], path[1], int(little.Uint16(path[2:]))
		if size < 4 || size > len(path) {
			break
		}
		switch node := path[:size]; {
		case kind == mediaNode && sub == driveNode && size == driveBytes && node[40] == isGPT && node[41] == hasGUID:
			e.Partition = guid(node[24:40])
		case kind == mediaNode && sub == fileNode:
			e.File, _, _ = cutText(node[4:])
		}
		path = path[size:]
	}
	return e, e.Partition != ""
}

// cutText reads UTF-16 up to a zero.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	var all []uint16
	for ; len(b) >= 2; b = b[2:] {
		c := little.Uint16(b)
		if c == 0 {
			return printable(string(utf16.Decode(all))), b[2:], true
		}
		all = append(all, c)
	}
	return "", nil, false
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}

// guid formats a GUID from its stored form, in which the first three numbers are little-endian.
func guid(b []byte) string {
	x := slices.Clone(b)
	slices.Reverse(x[:4])
	slices.Reverse(x[4:6])
	slices.Reverse(x[6:8])
	t := hex.EncodeToString(x)
	return t[:8] + "-" + t[8:12] + "-" + t[12:16] + "-" + t[16:20] + "-" + t[20:]
}

// Clear removes the boot manager entries that start something on partitions with the given GUIDs, so that nothing
// there boots while they are erased. It returns the removed entries. If the entries cannot be read, it returns
// ErrUnknown.
func Clear(h *inside.Host, partitions []string) (removed []Entry, err error) {
	all, err := Entries(h)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if !slices.Contains(partitions, e.Partition) {
			continue
		}
		// The boot order may name a missing entry: the firmware continues with the next.
		path := h.Path(fmt.Sprintf("%s/Boot%04X%s", variables, e.Number, global))
		if err := mutable(path); err != nil {
			return removed, fmt.Errorf("remove the boot entry %s of the firmware: %w; no disk was written", e, err)
		}
		if err := os.Remove(path); err != nil {
			return removed, fmt.Errorf("remove the boot entry %s of the firmware: %w; no disk was written", e, err)
		}
		removed = append(removed, e)
	}
	return removed, nil
}

// find returns the entry that starts a file of a partition.
func find(all []Entry, partition, file string) (Entry, bool) {
	i := slices.IndexFunc(all, func(e Entry) bool {
		return e.Partition == partition && strings.EqualFold(e.File, file)
	})
	if i < 0 {
		return Entry{}, false
	}
	return all[i], true
}

// firmwarePath is a path on a partition in the firmware's notation.
func firmwarePath(words ...string) string { return `\` + strings.Join(words, `\`) }

// inFolder maps the lower-case names in a folder of the target's ESP to their paths, because FAT ignores case.
func inFolder(folder string) map[string]string {
	entries, _ := os.ReadDir(folder)
	all := map[string]string{}
	for _, e := range entries {
		all[strings.ToLower(e.Name())] = filepath.Join(folder, e.Name())
	}
	return all
}

// Variables mounts the firmware's variables if the kernel was booted by UEFI and they are not mounted yet.
func Variables(ctx context.Context, h *inside.Host) error {
	entries, err := os.ReadDir(h.Path(variables))
	if errors.Is(err, fs.ErrNotExist) || len(entries) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	o, err := h.Exec(ctx, inside.Command{Path: "mount", Args: []string{"-t", "efivarfs", "efivarfs", variables}})
	if err == nil && o.Code != 0 {
		err = fmt.Errorf("mount the variables of the firmware: %s; nothing was written", o.LastLines(3))
	}
	return err
}
