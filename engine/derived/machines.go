package derived

import "github.com/slipway-gitops/slipway/engine/secret"

// AccountPurpose is the purpose of the password of an account of BMCs.
func AccountPurpose(account string) string { return "bmc account " + account }

// Passwords returns what makes the derived passwords of a site, see secret.Store.Derives. Each value has
// the account as its user name. One with an epoch below 1 or a UUID that is none is refused.
func Passwords(root Root, siteName string) func(secret.Of) (secret.Value, error) {
	return func(of secret.Of) (secret.Value, error) {
		form, err := FormOf(of.Form)
		if err != nil {
			return secret.Value{}, err
		}
		v, err := Password(root, Of{Site: siteName, Purpose: AccountPurpose(of.Account), Machine: of.Machine, Epoch: of.Epoch}, form)
		if err != nil {
			return secret.Value{}, err
		}
		text, err := v.Password()
		if err != nil {
			return secret.Value{}, err
		}
		return secret.New(of.Account, text), nil
	}
}
