//! The grammar of kubectl's `--selector`.

use std::collections::BTreeSet;

use super::{Operator, Requirement, SelectorError};

const SYMBOLS: [&str; 9] = ["!=", "==", "=", "!", "(", ")", ",", ">", "<"];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    position: usize,
}

/// Parses a comma-separated list of requirements; blank text gives none.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { text, tokens: tokens(text), position: 0 };
    let mut requirements = Vec::new();
    if parser.tokens.is_empty() {
        return Ok(requirements);
    }
    loop {
        requirements.push(parser.requirement()?);
        if parser.at_end() {
            return Ok(requirements);
        }
        parser.expect(",", "',' or the end")?;
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let is_end = |character: char| character.is_whitespace() || "=!(),><".contains(character);
            let (word, after) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        }
        rest = rest.trim_start();
    }
    tokens
}

impl Parser<'_> {
    fn at_end(&self) -> bool {
        self.position == self.tokens.len()
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position)
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(found)) if *found == symbol);
        self.position += usize::from(found);
        found
    }

    fn take_word(&mut self) -> Option<String> {
        let Some(Token::Word(word)) = self.peek().cloned() else {
            return None;
        };
        self.position += 1;
        Some(word)
    }

    fn expect(&mut self, symbol: &str, expected: &'static str) -> Result<(), SelectorError> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &'static str) -> SelectorError {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::Word(word)) => format!("'{word}'"),
            Some(Token::Symbol(symbol)) => format!("'{symbol}'"),
        };
        SelectorError::Syntax { text: self.text.to_owned(), found, expected }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let negated = self.take_symbol("!");
        let key = self.take_word().ok_or_else(|| self.unexpected("a label key or '!'"))?;
        if negated {
            return Requirement::new(&key, Operator::DoesNotExist, BTreeSet::new());
        }
        if self.at_end() || matches!(self.peek(), Some(Token::Symbol(","))) {
            return Requirement::new(&key, Operator::Exists, BTreeSet::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.value_list()?,
            // `key=` compares with the empty value.
            _ => BTreeSet::from([self.take_word().unwrap_or_default()]),
        };
        Requirement::new(&key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        let operator = match self.peek() {
            Some(Token::Symbol("=" | "==")) => Operator::Equals,
            Some(Token::Symbol("!=")) => Operator::NotEquals,
            Some(Token::Symbol(">")) => Operator::GreaterThan,
            Some(Token::Symbol("<")) => Operator::LessThan,
            Some(Token::Word(word)) if word == "in" => Operator::In,
            Some(Token::Word(word)) if word == "notin" => Operator::NotIn,
            _ => return Err(self.unexpected("one of in, notin, =, ==, !=, >, <")),
        };
        self.position += 1;
        Ok(operator)
    }

    /// Reads `(a,b)`; a missing value stands for the empty one.
    fn value_list(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        self.expect("(", "'('")?;
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.take_word().unwrap_or_default());
            if self.take_symbol(")") {
                return Ok(values);
            }
            self.expect(",", "',' or ')'")?;
        }
    }
}
