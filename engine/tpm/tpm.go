// Package tpm seals small secrets to the TPM of this host (TCG, TPM 2.0 Library, part 1, section
// 27.2 of revision 1.59: sealed data). A sealed secret is useless on another host. It is useless
// on this host too after its TPM was cleared, or after one of the named registers (PCRs) has
// changed.
package tpm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"
)

// Device is the TPM of a host, through the kernel's resource manager.
const Device = "/dev/tpmrm0"

// The PEM block of a sealed secret: its type, and the header that names the device.
const (
	blockType    = "SLIPWAY TPM SEALED SECRET"
	headerDevice = "Device"
)

// lastPCR is the last of the registers that measure the start of a system. Higher ones can be
// reset while it runs.
const lastPCR = 15

// sealed is a secret in its stored form.
type sealed struct {
	// Root is the name of the object's parent key. A different key in its place would belong to
	// somebody between Slipway and the TPM.
	Root []byte `json:"root"`
	// Public and Private are the TPM object that holds the key of Text.
	Public  []byte `json:"public"`
	Private []byte `json:"private"`
	// PCRs are the SHA-256 registers and their values, by number.
	PCRs map[int][]byte `json:"pcrs,omitempty"`
	// Text is encrypted by AES-256-GCM, with the nonce before it. The TPM itself takes at most
	// 128 bytes.
	Text []byte `json:"text"`
}

// IsSealed reports whether a text is a sealed secret.
func IsSealed(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN "+blockType))
}

// Seal seals a secret to the TPM, and to the current values of the registers.
func Seal(device string, secret []byte, pcrs []int) ([]byte, error) {
	if err := CheckPCRs(pcrs); err != nil {
		return nil, err
	}
	return inTime(func() ([]byte, error) { return seal(device, secret, pcrs) })
}

func seal(device string, secret []byte, pcrs []int) ([]byte, error) {
	t, err := open(device)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	key := make([]byte, 32)
	defer clear(key)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	s := sealed{}
	if s.Text, err = encrypt(key, secret); err != nil {
		return nil, err
	}
	if s.PCRs, err = readPCRs(t, pcrs); err != nil {
		return nil, err
	}
	for n, value := range s.PCRs {
		if len(bytes.Trim(value, "\x00")) == 0 || len(bytes.Trim(value, "\xff")) == 0 {
			return nil, fmt.Errorf("nothing is measured into the register %d on this host, so it would bind the secret to nothing: leave it out", n)
		}
	}
	if err := s.hold(t, key); err != nil {
		return nil, fmt.Errorf("seal to the TPM: %w", explained(err))
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockType, Headers: map[string]string{headerDevice: device}, Bytes: text}), nil
}

// Unseal returns a secret, using the device that sealed it.
func Unseal(text []byte) ([]byte, error) {
	block, rest := pem.Decode(bytes.TrimSpace(text))
	var s sealed
	if block == nil || block.Type != blockType || len(bytes.TrimSpace(rest)) > 0 || block.Headers[headerDevice] == "" || json.Unmarshal(block.Bytes, &s) != nil {
		return nil, errDamaged
	}
	if err := CheckPCRs(s.numbers()); err != nil {
		return nil, err
	}
	return inTime(func() ([]byte, error) { return s.open(block.Headers[headerDevice]) })
}

func (s *sealed) open(device string) ([]byte, error) {
	t, err := open(device)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	key, err := s.release(t)
	if err != nil {
		return nil, fmt.Errorf("the TPM does not open it: %w", s.why(t, err))
	}
	defer clear(key)
	secret, err := decrypt(key, s.Text)
	if err != nil {
		return nil, errDamaged
	}
	return secret, nil
}

var errDamaged = errors.New("the sealed secret is damaged")

// patience is how long a TPM may take: some need seconds to make a key. Tests use less.
var patience = 30 * time.Second

// inUse allows one user of the host's TPM at a time, even one that hangs.
var inUse = make(chan struct{}, 1)

// inTime uses the TPM and gives up when that takes too long, because neither the kernel nor the
// device has a time limit.
func inTime(do func() ([]byte, error)) ([]byte, error) {
	timeout := time.After(patience)
	select {
	case inUse <- struct{}{}:
	case <-timeout:
		return nil, fmt.Errorf("the TPM has not answered for %v", patience)
	}
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-inUse }()
		text, err := do()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-timeout:
		return nil, fmt.Errorf("the TPM has not answered for %v", patience)
	}
}

// CheckPCRs checks that numbers are different registers that measure the start of a system.
func CheckPCRs(pcrs []int) error {
	for i, n := range pcrs {
		if n < 0 || n > lastPCR {
			return fmt.Errorf("%d is not a register from 0 to %d", n, lastPCR)
		}
		if slices.Contains(pcrs[:i], n) {
			return fmt.Errorf("the register %d is named twice", n)
		}
	}
	return nil
}

// deviceName keeps TPM commands away from other devices, because a sealed secret names its own
// device.
var deviceName = regexp.MustCompile(`^/dev/tpm(rm)?[0-9]+$`)

// open opens a device, or the socket of an emulated one.
func open(device string) (transport.TPMCloser, error) {
	info, err := os.Stat(device)
	isSocket := err == nil && info.Mode()&os.ModeSocket != 0
	switch {
	case !isSocket && !deviceName.MatchString(device):
		return nil, fmt.Errorf("%s is not the device of a TPM, such as %s", device, Device)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no TPM at %s: it has to be a TPM 2.0, and the service needs DeviceAllow=%s", device, device)
	case err != nil:
		return nil, err
	}
	dial := linuxtpm.Open
	if isSocket {
		dial = linuxudstpm.Open
	}
	t, err := dial(device)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: add the user of this process to the group of the device, such as tss", err)
	}
	return t, err
}

// root loads the key that the TPM derives from its seed. It stays the same until the TPM is
// cleared.
func root(t transport.TPM) (*tpm2.CreatePrimaryResponse, func(), error) {
	r, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHOwner, InPublic: tpm2.New2B(tpm2.ECCSRKTemplate)}.Execute(t)
	if err != nil {
		return nil, nil, err
	}
	return r, func() { _, _ = tpm2.FlushContext{FlushHandle: r.ObjectHandle}.Execute(t) }, nil
}

// protected returns the options that encrypt the session with the TPM, and the name of the key
// for this. Nobody who listens on the wires can read it.
func protected(root *tpm2.CreatePrimaryResponse) (name []byte, in, out []tpm2.AuthOption, err error) {
	public, err := root.OutPublic.Contents()
	if err != nil {
		return nil, nil, nil, err
	}
	is, err := tpm2.ObjectName(public)
	if err != nil {
		return nil, nil, nil, err
	}
	salted := tpm2.Salted(root.ObjectHandle, *public)
	return is.Buffer, []tpm2.AuthOption{salted, tpm2.AESEncryption(128, tpm2.EncryptIn)}, []tpm2.AuthOption{salted, tpm2.AESEncryption(128, tpm2.EncryptOut)}, nil
}

// hold makes the TPM hold the key.
func (s *sealed) hold(t transport.TPM, key []byte) error {
	root, flush, err := root(t)
	if err != nil {
		return err
	}
	defer flush()
	policy, err := s.policy()
	if err != nil {
		return err
	}
	name, options, _, err := protected(root)
	if err != nil {
		return err
	}
	s.Root = name
	made, err := tpm2.Create{
		ParentHandle: tpm2.AuthHandle{Handle: root.ObjectHandle, Name: root.Name, Auth: tpm2.HMAC(tpm2.TPMAlgSHA256, 16, options...)},
		InSensitive:  tpm2.TPM2BSensitiveCreate{Sensitive: &tpm2.TPMSSensitiveCreate{Data: tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: key})}},
		InPublic: tpm2.New2B(tpm2.TPMTPublic{
			Type: tpm2.TPMAlgKeyedHash, NameAlg: tpm2.TPMAlgSHA256,
			// There is no password to guess, so attempts do not count for the TPM's lockout.
			ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, NoDA: true, UserWithAuth: len(s.PCRs) == 0},
			AuthPolicy:       policy,
		}),
	}.Execute(t)
	if err != nil {
		return err
	}
	s.Public, s.Private = tpm2.Marshal(made.OutPublic), tpm2.Marshal(made.OutPrivate)
	return nil
}

// release gets the key back from the TPM.
func (s *sealed) release(t transport.TPM) ([]byte, error) {
	public, err := tpm2.Unmarshal[tpm2.TPM2BPublic](s.Public)
	if err != nil {
		return nil, err
	}
	private, err := tpm2.Unmarshal[tpm2.TPM2BPrivate](s.Private)
	if err != nil {
		return nil, err
	}
	root, flush, err := root(t)
	if err != nil {
		return nil, err
	}
	defer flush()
	loaded, err := tpm2.Load{
		ParentHandle: tpm2.AuthHandle{Handle: root.ObjectHandle, Name: root.Name, Auth: tpm2.PasswordAuth(nil)},
		InPrivate:    *private, InPublic: *public,
	}.Execute(t)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = tpm2.FlushContext{FlushHandle: loaded.ObjectHandle}.Execute(t) }()
	name, _, options, err := protected(root)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(name, s.Root) {
		return nil, errors.New("its root key is another one")
	}
	by := tpm2.HMAC(tpm2.TPMAlgSHA256, 16, options...)
	if len(s.PCRs) > 0 {
		by = tpm2.Policy(tpm2.TPMAlgSHA256, 16, func(t transport.TPM, session tpm2.TPMISHPolicy, _ tpm2.TPM2BNonce) error {
			_, err := tpm2.PolicyPCR{PolicySession: session, Pcrs: selection(s.numbers())}.Execute(t)
			return err
		}, options...)
	}
	got, err := tpm2.Unseal{ItemHandle: tpm2.AuthHandle{Handle: loaded.ObjectHandle, Name: loaded.Name, Auth: by}}.Execute(t)
	if err != nil {
		return nil, err
	}
	return got.OutData.Buffer, nil
}

// policy returns the condition for the TPM to release the key.
func (s *sealed) policy() (tpm2.TPM2BDigest, error) {
	if len(s.PCRs) == 0 {
		return tpm2.TPM2BDigest{}, nil
	}
	calculator, err := tpm2.NewPolicyCalculator(tpm2.TPMAlgSHA256)
	if err != nil {
		return tpm2.TPM2BDigest{}, err
	}
	h, err := tpm2.TPMAlgSHA256.Hash()
	if err != nil {
		return tpm2.TPM2BDigest{}, err
	}
	sum := h.New()
	for _, n := range s.numbers() {
		sum.Write(s.PCRs[n])
	}
	err = tpm2.PolicyPCR{PcrDigest: tpm2.TPM2BDigest{Buffer: sum.Sum(nil)}, Pcrs: selection(s.numbers())}.Update(calculator)
	return tpm2.TPM2BDigest{Buffer: calculator.Hash().Digest}, err
}

func (s *sealed) numbers() (all []int) {
	for n := range s.PCRs {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

func selection(pcrs []int) tpm2.TPMLPCRSelection {
	var numbers []uint
	for _, n := range pcrs {
		numbers = append(numbers, uint(n))
	}
	return tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{{Hash: tpm2.TPMAlgSHA256, PCRSelect: tpm2.PCClientCompatible.PCRs(numbers...)}}}
}

// readPCRs reads registers one by one, because the TPM returns at most eight at a time.
func readPCRs(t transport.TPM, pcrs []int) (map[int][]byte, error) {
	all := map[int][]byte{}
	for _, n := range pcrs {
		r, err := tpm2.PCRRead{PCRSelectionIn: selection([]int{n})}.Execute(t)
		if err != nil {
			return nil, fmt.Errorf("read the register %d: %w", n, explained(err))
		}
		if len(r.PCRValues.Digests) != 1 {
			return nil, fmt.Errorf("the TPM has no bank of SHA-256 for the register %d: turn it on in the firmware's settings", n)
		}
		all[n] = r.PCRValues.Digests[0].Buffer
	}
	return all, nil
}

// why says which registers changed, if that is the reason.
func (s *sealed) why(t transport.TPM, err error) error {
	now, rerr := readPCRs(t, s.numbers())
	if rerr != nil {
		return rerr
	}
	var changed []string
	for _, n := range s.numbers() {
		if !bytes.Equal(now[n], s.PCRs[n]) {
			changed = append(changed, strconv.Itoa(n))
		}
	}
	if len(changed) > 0 {
		return fmt.Errorf("the start of this host changed since it was sealed (PCR %s): somebody may have changed its firmware, boot loader or kernel", strings.Join(changed, ", "))
	}
	return explained(err)
}

// explained says what error codes of a TPM mean.
func explained(err error) error {
	var code tpm2.TPMRC
	switch {
	case !errors.As(err, &code):
		return err
	case errors.Is(err, tpm2.TPMRCIntegrity), errors.Is(err, tpm2.TPMRCSize):
		return fmt.Errorf("it was sealed to another TPM, or this one was cleared since (%w)", err)
	case errors.Is(err, tpm2.TPMRCBadAuth), errors.Is(err, tpm2.TPMRCAuthFail):
		return fmt.Errorf("the owner of the TPM has a password, which Slipway does not know (%w)", err)
	case errors.Is(err, tpm2.TPMRCLockout):
		return fmt.Errorf("the TPM is locked after wrong attempts: wait until it opens again (%w)", err)
	}
	return err
}

func encrypt(key, text []byte) ([]byte, error) {
	gcm, err := sealer(key)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nil, text, []byte(blockType)), nil
}

func decrypt(key, text []byte) ([]byte, error) {
	gcm, err := sealer(key)
	if err != nil {
		return nil, err
	}
	return gcm.Open(nil, nil, text, []byte(blockType))
}

func sealer(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
