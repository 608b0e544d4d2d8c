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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// variables is where the kernel shows the variables of UEFI firmware (efivarfs).
const variables = "/sys/firmware/efi/efivars"

// The variables of the firmware's boot manager (UEFI specification 2.10, section 3.3) end with
// the GUID of its own.
const global = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"

// The bounds of what is read of the firmware.
const (
	maxVariables = 4096
	maxVariable  = 64 << 10
)

var little = binary.LittleEndian

// Entry is one of the firmware's boot manager that starts a file of a disk.
type Entry struct {
	Number uint16
	// Name is what the firmware shows people.
	Name string
	// Partition is the GUID of the partition of a GPT, in lower case, and File the path there.
	Partition string
	File      string
}

// String is what people call it: "Boot0003 (debian)".
func (e Entry) String() string { return fmt.Sprintf("Boot%04X (%s)", e.Number, e.Name) }

var entryName = regexp.MustCompile(`^Boot([0-9A-F]{4})` + global + `$`)

// ErrUnknown is that the firmware's boot manager cannot be looked at: the machine was started
// by a BIOS, or its kernel shows no variables.
var ErrUnknown = errors.New("the kernel shows no variables of UEFI firmware, so the entries of its boot manager are unknown")

// Entries are those of the firmware's boot manager that start a file of a partition of a GPT.
// Others, as of the network, are left out. Where they cannot be known it gives ErrUnknown.
func Entries(h *inside.Host) (all []Entry, err error) {
	names, err := variableNames(h)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		m := entryName.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		text, err := readVariable(h, name)
		if err != nil {
			return nil, err
		}
		number, _ := strconv.ParseUint(m[1], 16, 16) // the pattern says so
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
	if len(names) == 0 { // efivarfs is not mounted there: firmware always has some
		return nil, ErrUnknown
	}
	slices.Sort(names)
	return names, err
}

// readVariable reads one without its attributes, which are its first four bytes.
func readVariable(h *inside.Host, name string) ([]byte, error) {
	f, err := os.Open(h.Path(variables + "/" + name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, maxVariable)
	n, err := f.Read(text) // one read gives all of it
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

// parseEntry reads a load option (UEFI specification 2.10, section 3.1.3). It takes any bytes;
// ok is false for one that starts no file of a partition of a GPT.
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

// guid writes one as it is stored: the first three numbers are turned round.
func guid(b []byte) string {
	x := slices.Clone(b)
	slices.Reverse(x[:4])
	slices.Reverse(x[4:6])
	slices.Reverse(x[6:8])
	t := hex.EncodeToString(x)
	return t[:8] + "-" + t[8:12] + "-" + t[12:16] + "-" + t[16:20] + "-" + t[20:]
}

// Clear removes the entries of the firmware's boot manager that start something of partitions
// with the given GUIDs, so that nothing of these is started while they are erased. It tells
// which it removed. Where the entries cannot be known it gives ErrUnknown.
func Clear(h *inside.Host, partitions []string) (removed []Entry, err error) {
	all, err := Entries(h)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if !slices.Contains(partitions, e.Partition) {
			continue
		}
		// The list of the order may name one that is not there: firmware goes on to the next.
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

// find is the entry that starts a file of a partition.
func find(all []Entry, partition, file string) (Entry, bool) {
	i := slices.IndexFunc(all, func(e Entry) bool {
		return e.Partition == partition && strings.EqualFold(e.File, file)
	})
	if i < 0 {
		return Entry{}, false
	}
	return all[i], true
}

// firmwarePath is a path of a partition as firmware writes it.
func firmwarePath(words ...string) string { return `\` + strings.Join(words, `\`) }

// inFolder are the names in a folder of the target's ESP, without regard to their case, by
// their names in lower case.
func inFolder(folder string) map[string]string {
	entries, _ := os.ReadDir(folder)
	all := map[string]string{}
	for _, e := range entries {
		all[strings.ToLower(e.Name())] = filepath.Join(folder, e.Name())
	}
	return all
}

// Variables has the kernel show the variables of the firmware, where it was started by UEFI
// and does not do so yet.
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
