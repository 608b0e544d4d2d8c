package inside

import (
	"context"
	"errors"
)

// CheckSudoers asks visudo whether sudo can read a file of rules, and returns its message if not. A file that sudo
// cannot read may prevent everybody from using sudo. The visudo of sudo-rs, in Ubuntu since 25.10, takes "-" for a
// file name. The visudo of sudo accepts "-" for its input, and so needs no /dev.
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
