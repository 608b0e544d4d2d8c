package item

import "fmt"

// SudoFile is where the rule of an account that may become root is. sudo reads no file
// with a dot in its name; names of accounts have none.
func SudoFile(account string) string { return "/etc/sudoers.d/slipway-" + account }

// SudoRule is that file's content: every command, as every account, without a password.
func SudoRule(account string) string {
	return fmt.Sprintf("# Slipway's, from the design.\n%s ALL=(ALL:ALL) NOPASSWD: ALL\n", account)
}
