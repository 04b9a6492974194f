// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/scanner"
	"unicode"

	"github.com/gocurator/curator/internal/secrets"
)

// jaasClient is the section of a JAAS file that clients of ZooKeeper read.
const jaasClient = "Client"

// login is a login module of a JAAS file with its options.
type login struct {
	module  string // the class without its package
	options map[string]secrets.Secret
}

func (l *login) option(name string) string { return l.options[name].Text() }

// is reports whether an option is true.
func (l *login) is(name string) bool { return strings.EqualFold(l.option(name), "true") }

// readJAAS returns the login module of the section Client in the text of a JAAS file. Errors name lines and what was expected there,
// and show no value, which may be a password.
func readJAAS(text string) (*login, error) {
	p := &jaasParser{}
	p.Init(strings.NewReader(text))
	p.Mode = scanner.ScanIdents | scanner.ScanStrings | scanner.ScanComments | scanner.SkipComments
	p.IsIdentRune = func(r rune, _ int) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || r != scanner.EOF && strings.ContainsRune("_-.$*", r)
	}
	p.Error = func(_ *scanner.Scanner, message string) { p.fail(message) }
	p.next()
	var names []string
	var found []login
	for p.err == nil && p.token != scanner.EOF {
		name := p.word("the name of a section, such as Client")
		p.skip('{')
		var logins []login
		for p.err == nil && p.token != '}' {
			logins = append(logins, p.login())
		}
		p.skip('}')
		p.skip(';')
		if slices.Contains(names, name) {
			p.fail("a second section of one name, expected one")
		}
		names = append(names, name)
		if name == jaasClient {
			found = logins
		}
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case !slices.Contains(names, jaasClient):
		return nil, fmt.Errorf("sections %q, expected one named %s", names, jaasClient)
	case len(found) != 1:
		return nil, fmt.Errorf("%d login modules in the section %s, expected one", len(found), jaasClient)
	}
	return &found[0], nil
}

// jaasParser reads a JAAS file. After an error all is at its end.
type jaasParser struct {
	scanner.Scanner

	token rune
	err   error
}

func (p *jaasParser) next() {
	p.token = p.Scan()
	if p.err != nil {
		p.token = scanner.EOF
	}
}

func (p *jaasParser) fail(message string) {
	if p.err == nil {
		p.err = fmt.Errorf("line %d: %s", p.Line, message)
	}
	p.token = scanner.EOF
}

// skip passes over a mark.
func (p *jaasParser) skip(mark rune) {
	if p.token != mark {
		p.fail(fmt.Sprintf("expected %c", mark))
		return
	}
	p.next()
}

// word returns a word, or what stands between quotes.
func (p *jaasParser) word(what string) string {
	text := p.TokenText()
	switch p.token {
	case scanner.Ident:
	case scanner.String:
		unquoted, err := strconv.Unquote(text)
		if err != nil {
			p.fail(`a \ in quotes that is not understood, expected \\ or \"`)
		}
		text = unquoted
	default:
		p.fail("expected " + what)
		return ""
	}
	p.next()
	return text
}

// login reads a module: a class, a flag, and options up to a semicolon.
func (p *jaasParser) login() login {
	class := p.word("the class of a login module")
	l := login{module: class[strings.LastIndex(class, ".")+1:], options: make(map[string]secrets.Secret)}
	flag := p.word("required after the class")
	if !slices.Contains([]string{"required", "requisite", "sufficient", "optional"}, strings.ToLower(flag)) {
		p.fail("expected the class of a login module and required")
	}
	for p.err == nil && p.token != ';' {
		name := p.word("an option such as keyTab, or ;")
		p.skip('=')
		value := p.word("a value in quotes")
		if strings.Contains(value, "${") {
			p.fail(name + `: properties such as ${user.home} are not read, expected the text itself`)
		}
		l.options[name] = secrets.Hide(value)
	}
	p.skip(';')
	return l
}

// credential returns what the module logs in with.
func (l *login) credential() (credential, error) {
	switch l.module {
	case "DigestLoginModule":
		user, password := l.option("username"), l.option("password")
		if user == "" || password == "" {
			return credential{}, errors.New("DigestLoginModule: expected username and password")
		}
		return credential{user: user, password: secrets.Hide(password)}, nil
	case "Krb5LoginModule":
		id := credential{principal: l.option("principal")}
		switch {
		case l.is("useKeyTab"): // with useTicketCache as well, a ticket in the cache would be of the same principal
			id.keytab = strings.TrimPrefix(l.option("keyTab"), "FILE:")
			if id.keytab == "" || id.principal == "" {
				return credential{}, errors.New("Krb5LoginModule: expected keyTab and principal with useKeyTab=true")
			}
		case l.is("useTicketCache"):
			id.cache = cmp.Or(l.option("ticketCache"), defaultCache)
			if id.principal != "" {
				return credential{}, errors.New("Krb5LoginModule: principal with useTicketCache=true, expected none: the tickets have one")
			}
		default:
			return credential{}, errors.New("Krb5LoginModule: expected useKeyTab=true or useTicketCache=true")
		}
		return id, nil
	default:
		return credential{}, fmt.Errorf("login module %q, expected Krb5LoginModule or DigestLoginModule", l.module)
	}
}
