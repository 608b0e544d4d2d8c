package inside

import (
	"context"
	"errors"
)

// CheckSudoers asks visudo whether sudo can read a file of rules, and gives what it said
// otherwise. A file that it cannot read may keep everybody from using sudo. The visudo of
// sudo-rs, which Ubuntu has since 25.10, takes "-" for the name of a file, and that of sudo
// needs no /dev to read its input.
func CheckSudoers(ctx context.Context, h *Host, rules []byte) error {
	var first error
	for _, input := range []string{"-", "/dev/stdin"} {
		o, err := h.Exec(ctx, Command{Path: "visudo", Args: []string{"-c", "-f", input}, Stdin: rules})
		if err == nil && o.Code == 0 {
			return nil
		}
		if err == nil {
			err = errors.New(o.LastLines(5))
		}
		if first == nil {
			first = err
		}
	}
	return first
}
