//! The interfaces that are understood.

/// An interface of a model provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Api {
    /// Anthropic Messages.
    AnthropicMessages,
    /// Anthropic's counting of tokens, which is free.
    AnthropicCountTokens,
    /// OpenAI Responses, its compaction of conversations included.
    OpenAiResponses,
    /// OpenAI Chat Completions, which OpenRouter and most other providers speak too.
    OpenAiChat,
    /// Gemini, the answer in one piece.
    GeminiGenerate,
    /// Gemini, the answer as a stream: of events, or as the elements of an array.
    GeminiStream,
    /// Gemini's counting of tokens, which is free.
    GeminiCountTokens,
    /// The list of a provider's models, or one of them; free.
    Models,
}

/// Providers whose errors look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Anthropic and those who speak its interface.
    Anthropic,
    /// OpenAI and those who speak its interfaces.
    OpenAi,
    /// Google's Gemini.
    Gemini,
}

impl Api {
    /// Returns the name under which exchanges are stored.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic_messages",
            Self::AnthropicCountTokens => "anthropic_count_tokens",
            Self::OpenAiResponses => "openai_responses",
            Self::OpenAiChat => "openai_chat",
            Self::GeminiGenerate => "gemini_generate",
            Self::GeminiStream => "gemini_stream",
            Self::GeminiCountTokens => "gemini_count_tokens",
            Self::Models => "models",
        }
    }

    /// Tells whether a provider bills tokens for it.
    #[must_use]
    pub const fn is_billed(self) -> bool {
        !matches!(self, Self::AnthropicCountTokens | Self::GeminiCountTokens | Self::Models)
    }

    /// Returns whose errors its clients understand. [`Api::Models`] has the same path with all providers and counts as
    /// OpenAI's.
    #[must_use]
    pub const fn family(self) -> Family {
        match self {
            Self::AnthropicMessages | Self::AnthropicCountTokens => Family::Anthropic,
            Self::OpenAiResponses | Self::OpenAiChat | Self::Models => Family::OpenAi,
            Self::GeminiGenerate | Self::GeminiStream | Self::GeminiCountTokens => Family::Gemini,
        }
    }
}
