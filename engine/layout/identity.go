package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// identity is the source of unique names: the same for the same installation on
// the same disks, and different for any other.
type identity [sha256.Size]byte

func (b *builder) identity(words ...string) identity {
	all := append([]string{"slipway layout 1", b.node.Name, strconv.Itoa(b.node.Generation)}, words...)
	return sha256.Sum256([]byte(strings.Join(all, "\x00")))
}

// uuid returns a UUID of version 8 (RFC 9562, section 5.8).
func (i identity) uuid() string {
	u := i
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// short returns eight hexadecimal digits, not all of them 0.
func (i identity) short() string {
	return hex.EncodeToString([]byte{i[0] | 1, i[1], i[2], i[3]})
}

// lvm returns an LVM identity: 32 letters and digits in groups.
func (i identity) lvm() string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var text []byte
	for n, c := range i {
		if n == 6 || n > 6 && n < 30 && n%4 == 2 {
			text = append(text, '-')
		}
		text = append(text, letters[int(c)%len(letters)])
	}
	return string(text)
}

// idOf identifies a place apart from its node.
func (b *builder) idOf(p item.Place) string {
	switch {
	case p.Opened != "":
		return "encrypted " + p.Opened
	case p.Array != "":
		return "array " + b.arrays[p.Array].UUID
	case p.Volume != "":
		return "volume " + p.Group + "/" + p.Volume + " " + b.groupIDs[p.Group]
	}
	return fmt.Sprintf("disk %s %d", b.disks[p.Disk].ID(), p.Partition)
}
