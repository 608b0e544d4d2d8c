package item

import "fmt"

// SudoFile is the file with the rule of an account that may become root. sudo ignores files with a
// dot in the name; account names have none.
func SudoFile(account string) string { return "/etc/sudoers.d/slipway-" + account }

// SudoRule is that file's content: every command, as every account, without a password.
func SudoRule(account string) string {
	return fmt.Sprintf("# Slipway's, from the design.\n%s ALL=(ALL:ALL) NOPASSWD: ALL\n", account)
}
