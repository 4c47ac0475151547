package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Tokens are the bearer tokens that clients may use, from a file with one on each line.
// Empty lines and those that begin with # are ignored. A nil *Tokens is never reread.
type Tokens struct {
	path   string
	hashes atomic.Pointer[[][sha256.Size]byte]
}

// ReadTokens reads a file of tokens.
func ReadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	return t, t.Reload()
}

// minToken is the minimum length of a token.
const minToken = 16

// Reload reads the file again. After an error the previous tokens stay valid.
func (t *Tokens) Reload() error {
	if t == nil {
		return nil
	}
	text, err := os.ReadFile(t.path)
	if err != nil {
		return err
	}
	var hashes [][sha256.Size]byte
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		token := strings.TrimSpace(line)
		switch {
		case token == "" || token[0] == '#':
		case len(token) < minToken || strings.ContainsAny(token, " \t"):
			return fmt.Errorf("%s:%d: want a token of %d or more characters without spaces", t.path, number, minToken)
		default:
			hashes = append(hashes, sha256.Sum256([]byte(token)))
		}
	}
	if len(hashes) == 0 {
		return fmt.Errorf("%s has no tokens: want one on each line", t.path)
	}
	t.hashes.Store(&hashes)
	return nil
}

// Allow reports whether a token is valid, in a time that does not depend on which one it is.
func (t *Tokens) Allow(token string) bool {
	given := sha256.Sum256([]byte(token))
	found := 0
	for _, hash := range *t.hashes.Load() {
		found |= subtle.ConstantTimeCompare(hash[:], given[:])
	}
	return found == 1
}

// Certificate is the certificate of a server with its key, from files that are read for each connection
// so that they may be renewed. A nil *Certificate has no errors.
type Certificate struct {
	cert, key, clientCA string
	last                atomic.Pointer[tls.Config] // from the last time that all files could be read
}

// ReadCertificate reads the files of a certificate and its key. With a clientCA, clients need a
// certificate signed by it.
func ReadCertificate(cert, key, clientCA string) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, clientCA: clientCA}
	return c, c.reload()
}

// reload reads the files again. After an error the previous certificates stay in use, as in the moment
// when one of two files has been replaced.
func (c *Certificate) reload() error {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		err = fmt.Errorf("certificate %s with key %s: %w", c.cert, c.key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	if c.clientCA != "" {
		pool, poolErr := CertPool(c.clientCA)
		if poolErr != nil {
			poolErr = fmt.Errorf("CA of the clients: %w", poolErr)
		}
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
		err = errors.Join(err, poolErr)
	}
	if err == nil {
		c.last.Store(config)
	}
	return err
}

// config returns the configuration of a server with the certificate.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			_ = c.reload() // Check reports its error
			return c.last.Load(), nil
		},
	}
}

// Check returns why the files cannot be read or clients refuse the certificate at a time.
func (c *Certificate) Check(now time.Time) error {
	if c == nil {
		return nil
	}
	if err := c.reload(); err != nil {
		return fmt.Errorf("the previous certificate stays in use: %w", err)
	}
	switch leaf := c.last.Load().Certificates[0].Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("certificate %s expired at %s, so clients refuse it", c.cert, leaf.NotAfter.Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("certificate %s is not valid before %s, so clients refuse it", c.cert, leaf.NotBefore.Format(time.RFC3339))
	default:
		return nil
	}
}

// CertPool reads a file of certificates.
func CertPool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return pool, nil
}
