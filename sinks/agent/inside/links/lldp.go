package links

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// These are the size of an Ethernet header and the frame type of LLDP (IEEE 802.1AB).
const (
	ethernetHead = 14
	lldpType     = 0x88cc
)

// maxName bounds each text of a neighbour, in characters.
const maxName = 255

// parseFrame reads an Ethernet frame with LLDP. It returns false if the frame names no chassis and port, or if the
// neighbour says goodbye.
func parseFrame(frame []byte) (item.Neighbour, bool) {
	var n item.Neighbour
	if len(frame) < ethernetHead || binary.BigEndian.Uint16(frame[12:]) != lldpType {
		return n, false
	}
	leaves := false
	for rest := frame[ethernetHead:]; len(rest) >= 2; {
		kind, length := rest[0]>>1, int(binary.BigEndian.Uint16(rest)&0x1ff)
		if kind == 0 || length > len(rest)-2 {
			break
		}
		value := rest[2 : 2+length]
		switch kind {
		case 1:
			n.Chassis = identifier(value, 4, 5)
		case 2:
			n.Port = identifier(value, 3, 4)
		case 3:
			leaves = length == 2 && binary.BigEndian.Uint16(value) == 0
		case 4:
			n.PortDescription = printable(string(value))
		case 5:
			n.System = printable(string(value))
		}
		rest = rest[2+length:]
	}
	return n, n.Chassis != "" && n.Port != "" && !leaves
}

// identifier is a chassis or a port. One subtype is a MAC address; another is a network address after its family
// (8.5.2, 8.5.3).
func identifier(value []byte, mac, network byte) string {
	if len(value) < 2 {
		return ""
	}
	rest := value[1:]
	switch {
	case value[0] == mac && len(rest) == 6:
		return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", rest[0], rest[1], rest[2], rest[3], rest[4], rest[5])
	case value[0] == network:
		if a, ok := netip.AddrFromSlice(rest[1:]); ok {
			return a.String()
		}
	}
	return printable(string(rest))
}

// printable is a foreign name, on one line of bounded length.
func printable(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
	if r := []rune(text); len(r) > maxName {
		return string(r[:maxName])
	}
	return text
}

// bounded are the first distinct neighbours of a port.
func bounded(all []item.Neighbour) []item.Neighbour {
	var some []item.Neighbour
	for _, n := range all {
		same := func(o item.Neighbour) bool { return o.Chassis == n.Chassis && o.Port == n.Port }
		if len(some) < item.MaxNeighbours && !slices.ContainsFunc(some, same) {
			some = append(some, n)
		}
	}
	return some
}

// maxNeighbourFile bounds what is read of systemd-networkd's frames of one interface, in bytes.
const maxNeighbourFile = 64 << 10

// fromNetworkd are the neighbours of an interface that systemd-networkd has heard; none if it does not listen.
func fromNetworkd(h *inside.Host, index int) []item.Neighbour {
	f, err := os.Open(h.Path("/run/systemd/netif/lldp/" + strconv.Itoa(index)))
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(f, maxNeighbourFile))
	return parseNetworkd(text)
}

// parseNetworkd reads a file of systemd-networkd: for each frame its length in eight little-endian bytes, then the
// frame.
func parseNetworkd(text []byte) []item.Neighbour {
	var all []item.Neighbour
	for len(text) >= 8 {
		size := binary.LittleEndian.Uint64(text)
		text = text[8:]
		if size > uint64(len(text)) {
			break
		}
		if n, ok := parseFrame(text[:size]); ok {
			n.By = "systemd-networkd"
			all = append(all, n)
		}
		text = text[size:]
	}
	return bounded(all)
}

// fromLLDPD are the neighbours that lldpd has heard, by interface; none if it is not installed or does not run.
func fromLLDPD(ctx context.Context, h *inside.Host) map[string][]item.Neighbour {
	out, err := h.Exec(ctx, inside.Command{Path: "lldpcli", Args: []string{"-f", "json0", "show", "neighbors"}, Timeout: 5 * time.Second})
	if err != nil || out.Code != 0 {
		return nil
	}
	return parseLLDPD(out.Out)
}

// said is a JSON list with one value, as lldpcli(8) prints it in the format json0.
type said []struct {
	Value string `json:"value"`
}

func (s said) text() string {
	if len(s) == 0 {
		return ""
	}
	return printable(s[0].Value)
}

// parseLLDPD reads the output of `lldpcli -f json0 show neighbors`.
func parseLLDPD(text []byte) map[string][]item.Neighbour {
	var told struct {
		LLDP []struct {
			Interface []struct {
				Name    string `json:"name"`
				Via     string `json:"via"`
				Chassis []struct {
					ID, Name said
				} `json:"chassis"`
				Port []struct {
					ID, Descr said
				} `json:"port"`
			} `json:"interface"`
		} `json:"lldp"`
	}
	if json.NewDecoder(bytes.NewReader(text)).Decode(&told) != nil {
		return nil
	}
	all := map[string][]item.Neighbour{}
	for _, l := range told.LLDP {
		for _, i := range l.Interface {
			if i.Via != "LLDP" || len(i.Chassis) == 0 || len(i.Port) == 0 {
				continue
			}
			n := item.Neighbour{
				Chassis: i.Chassis[0].ID.text(), System: i.Chassis[0].Name.text(),
				Port: i.Port[0].ID.text(), PortDescription: i.Port[0].Descr.text(), By: "lldpd",
			}
			if n.Chassis != "" && n.Port != "" {
				all[i.Name] = bounded(append(all[i.Name], n))
			}
		}
	}
	return all
}
